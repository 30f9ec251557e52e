"""A disk that loses what was not synced when the power fails, for a server on SQLite.

Beside each file of SQLite is what of it is on the disk: what was synced, and some of the sectors
that were written since then, in any order. ``lose_power`` puts the second in the place of the
first. That a file was created, shortened or deleted is on the disk at once, and the shared memory
of the write-ahead log is not.

SQLite calls the operating system through the methods of a file, which are replaced in its default
``sqlite3_vfs`` (https://www.sqlite.org/vfs.html).
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any, Final

_ON_DISK: Final = "-on-disk"
_SECTOR: Final = 512

_Pointer = ctypes.c_void_p
_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, _Pointer, _Pointer, _Pointer, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
)
_Write = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, ctypes.c_int, ctypes.c_int64)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, ctypes.c_int)


class _Vfs(ctypes.Structure):
    _fields_ = (
        *((one, ctypes.c_int) for one in ("version", "file_size", "most_of_path")),
        *((one, _Pointer) for one in ("following", "name", "data", "open")),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        *((one, _Pointer) for one in ("close", "read", "write", "truncate", "sync")),
        ("others", _Pointer * 13),
    )


class _File:
    """A file that SQLite has open, and what of it is on the disk."""

    def __init__(self, path: Path, methods: _Methods, chosen: random.Random) -> None:
        disk = _on_disk(path)
        if not disk.exists():
            shutil.copyfile(path, disk)
        self._disk = os.open(disk, os.O_RDWR)
        self._chosen = chosen
        self._cached: dict[int, bytes] = {}
        self._original = _Write(methods.write), _Truncate(methods.truncate), _Sync(methods.sync)
        self._own = _Write(self._write), _Truncate(self._truncate), _Sync(self._sync)
        self.methods = _Methods.from_buffer_copy(methods)
        write, truncate, sync = (ctypes.cast(one, _Pointer).value for one in self._own)
        self.methods.write, self.methods.truncate, self.methods.sync = write, truncate, sync

    def _write(self, file: int, content: int, length: int, offset: int) -> int:
        written = ctypes.string_at(content, length)
        for begin in range(0, length, _SECTOR):
            self._cached[offset + begin] = written[begin : begin + _SECTOR]
        for place in self._chosen.sample(sorted(self._cached), len(self._cached) // 3):
            os.pwrite(self._disk, self._cached.pop(place), place)
        return int(self._original[0](file, content, length, offset))

    def _truncate(self, file: int, size: int) -> int:
        self._write_all()
        os.ftruncate(self._disk, size)
        return int(self._original[1](file, size))

    def _sync(self, file: int, flags: int) -> int:
        result = int(self._original[2](file, flags))
        self._write_all()
        return result

    def _write_all(self) -> None:
        while self._cached:
            place, part = self._cached.popitem()
            os.pwrite(self._disk, part, place)


def cache_writes(folder: Path, seed: int) -> None:
    """From now on, files that SQLite opens in the folder are on such a disk; in this process."""
    chosen = random.Random(seed)  # noqa: S311  no secret
    library = ctypes.CDLL(_library())
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    vfs = library.sqlite3_vfs_find(None).contents
    original = _Open(vfs.open)

    def opened(own: int, name: int | None, file: int, flags: int, out: Any) -> int:
        result = int(original(own, name, file, flags, out))
        path = None if name is None else Path(os.fsdecode(ctypes.string_at(name)))
        if result == 0 and path is not None and path.parent == folder and "-lock" not in path.name:
            methods = _Pointer.from_address(file)
            one = _File(path, _Methods.from_address(methods.value or 0), chosen)
            methods.value = ctypes.addressof(one.methods)
            _KEPT.append(one)
        return result

    replaced = _Open(opened)
    _KEPT.append(replaced)
    vfs.open = ctypes.cast(replaced, _Pointer).value


_KEPT: Final[list[Any]] = []
"""What SQLite calls."""


def _library() -> str:
    """The SQLite that Python uses."""
    import sqlite3  # noqa: F401  it is loaded then

    found = re.search(r"\S*/libsqlite3\S*", Path("/proc/self/maps").read_text())
    assert found, "this Python has SQLite in itself, so its files cannot be watched"
    return found[0]


def lose_power(store: Path) -> None:
    """Leave of a store what is on the disk. Its server must have been killed."""
    store.with_name(f"{store.name}-shm").unlink(missing_ok=True)
    for disk in store.parent.glob(f"{store.name}*{_ON_DISK}"):
        seen = disk.with_name(disk.name.removesuffix(_ON_DISK))
        if seen.exists():
            disk.replace(seen)
        else:
            disk.unlink()


def _on_disk(path: Path) -> Path:
    return path.with_name(f"{path.name}{_ON_DISK}")
