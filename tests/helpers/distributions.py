"""Check the wheel and the sdist of a folder: ``python tests/helpers/distributions.py FOLDER``.

The wheel has the files of the package and nothing else, whatever compiled kernels lie beside them;
the sdist what a wheel is made of. Run in a clone, from its root.
"""

import configparser
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path


def check(folder):
    setup = configparser.ConfigParser()
    setup.read("setup.cfg")
    version = setup["metadata"]["version"]
    (wheel,), (sdist,) = Path(folder).glob("*.whl"), Path(folder).glob("*.tar.gz")
    assert wheel.name == f"lazyflow-{version}-py3-none-any.whl", wheel
    assert sdist.name == f"lazyflow-{version}.tar.gz", sdist

    listed = subprocess.run(
        ["git", "ls-files", "lazyflow"], capture_output=True, text=True, check=True
    )
    package = set(listed.stdout.split())
    assert "lazyflow/py.typed" in package
    with zipfile.ZipFile(wheel) as file:
        names, about = set(file.namelist()), f"lazyflow-{version}.dist-info"
        inside = {name for name in names if not name.startswith(about)}
        assert inside == package, inside ^ package
        metadata = Parser().parsestr(file.read(f"{about}/METADATA").decode())
        assert f"{about}/licenses/LICENSE" in names
    assert metadata["Version"] == version
    assert metadata["Requires-Python"] == setup["options"]["python_requires"]
    extras = set(setup["options.extras_require"])
    assert set(metadata.get_all("Provides-Extra")) == extras, extras

    root = f"lazyflow-{version}/"
    made = (f"{root}lazyflow.egg-info", f"{root}PKG-INFO")
    with tarfile.open(sdist) as file:
        inside = {member.name.removeprefix(root) for member in file if member.isfile()
                  and not member.name.startswith(made)}
    texts = ("CHANGELOG.rst", "CONTRIBUTING.rst", "LICENSE", "MANIFEST.in", "README.rst")
    wanted = package | {*texts, "pyproject.toml", "setup.cfg"}
    assert inside == wanted, inside ^ wanted
    print(f"{wheel.name}: {len(names)} files; {sdist.name}: {len(inside)} files")


if __name__ == "__main__":
    check(sys.argv[1])
