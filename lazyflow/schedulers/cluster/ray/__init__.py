"""`scheduler="ray"`: the only folder that imports Ray."""
