"""Builds the wheel of weirsignal for pip. It needs no other package, so pip installs this folder without a network."""
import base64
import hashlib
import zipfile
from pathlib import Path

NAME, VERSION = "weirsignal", "1.0.0"  # as in pyproject.toml


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns the name of its file (PEP 517)."""
    info = f"{NAME}-{VERSION}.dist-info"
    files = {
        "weirsignal.py": Path(__file__).with_name("weirsignal.py").read_bytes(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nRequires-Python: >=3.9\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: weirsignal\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={digest(text)},{len(text)}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
