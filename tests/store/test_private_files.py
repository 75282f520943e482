"""What another user of the machine puts where files of ours are looked for is not read."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lazyflow.store.private_files import open_private, private_folder

OTHER = 65534  # "nobody"

as_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can act as another user",
)


def by_another_user(command: str, folder: Path) -> None:
    """Run a command of the shell as another user of the machine."""
    subprocess.run(
        ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "sh", "-ec", command],
        cwd=folder, check=True, capture_output=True,
    )


@pytest.fixture
def shared(tmp_path: Path) -> Any:
    """Return a folder in which every user may write, as in that of temporary files."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o1777)
    for each in (*path.parents,):
        if os.stat(each).st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o011)  # others get to it
    return path


def read(folder: Path, name: str) -> bytes:
    with private_folder(str(folder)) as opened:
        fd = open_private(name, opened, os.O_RDONLY)
        with open(fd, "rb") as file:
            return file.read()


def test_a_file_of_ours_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with private_folder(str(folder)) as opened:
        os.close(open_private("file", opened, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "file").stat().st_mode & 0o777 == 0o600
    (folder / "file").write_bytes(b"text")
    assert read(folder, "file") == b"text"


@as_root
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("mkdir ours; echo evil > ours/file", "belongs to user 65534"),
        ("mkdir theirs; echo evil > theirs/file; ln -s theirs ours", "or is a link"),
        ("ln -s $VICTIM ours", "or is a link"),
        ("echo evil > ours", "is not a folder"),
        ("mkfifo ours", "is not a folder"),
    ],
)
def test_folders_that_others_have_made(shared: Path, command: str, words: str) -> None:
    victim = shared.parent / "victim"  # its files are this user's
    victim.mkdir()
    (victim / "file").write_text("good")
    by_another_user(command.replace("$VICTIM", str(victim)), shared)
    with pytest.raises(PermissionError, match=words):
        read(shared / "ours", "file")


@as_root
def test_folders_in_which_others_can_write(shared: Path) -> None:
    by_another_user("echo evil > file", shared)
    with pytest.raises(PermissionError, match=r"can be written by others: chmod go-w"):
        read(shared, "file")


@as_root
@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("echo evil > file", "belongs to user 65534"),
        ("mkdir file", "is not a regular file"),
        ("mkfifo file", "is not a regular file"),  # and is not waited for
        ("ln -s ../victim file", "file"),
    ],
)
def test_files_that_others_have_made(shared: Path, command: str, error: str) -> None:
    """Where the folder was open to others for a while."""
    (shared.parent / "victim").write_text("good")
    by_another_user(command, shared)
    shared.chmod(0o755)
    found: list[Any] = []

    def look() -> None:
        try:
            found.append(read(shared, "file"))
        except OSError as refused:
            found.append(refused)

    reader = threading.Thread(target=look, daemon=True)
    reader.start()
    reader.join(20)
    assert isinstance(found[0], OSError) and error in str(found[0])


def test_a_file_that_others_can_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("maybe evil")
    tmp_path.chmod(0o700)
    (tmp_path / "file").chmod(0o620)
    with pytest.raises(PermissionError, match="file can be written by others"):
        read(tmp_path, "file")
