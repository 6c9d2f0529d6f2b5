"""What root may trust: a path that root alone can change, and the folders that we write into, held open."""

from __future__ import annotations

import os
import pwd
import stat

from zombiescope.core.commands import command
from zombiescope.core.errors import Unreadable, UserError

MOST_LINKS = 40  # on the way to a file, as the kernel allows
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def trusted(path: str, *, last: bool = True) -> str:
    """Where `path` really is, if root may trust all that leads there; else `Unreadable`.

    Every folder and every link on the way must belong to root and be writable by root alone, also the folders that
    a link leads through: a user who may change a link chooses what root runs. A sticky folder (/tmp) may be writable by
    all, unless it is the `last`: there nobody can replace what belongs to root. Nothing that was checked can change
    afterwards, so it is the checked path that is opened.
    """
    if os.geteuid() != 0:
        return path
    links, part = 0, "/"
    left = os.path.abspath(path).split("/")[::-1]
    try:
        _check_owner("/", os.lstat("/"), last=False)
        while left:
            name = left.pop()
            if name in ("", "."):
                continue
            step = os.path.dirname(part) if name == ".." else os.path.join(part, name)
            status = os.lstat(step)
            _check_owner(step, status, last=last and not left)
            if not stat.S_ISLNK(status.st_mode):
                part = step
                continue
            links += 1
            if links > MOST_LINKS:
                raise Unreadable(path, "too many links on the way")
            target = os.readlink(step)
            part = "/" if target.startswith("/") else part
            left += target.split("/")[::-1]
    except OSError as error:
        raise Unreadable(path, why(error)) from error
    return part


def private_folder(path: str, *, above: bool = True) -> int:
    """A folder that we write into, open; made if it is not there. Root's must be root's alone, and no link.

    `above`: so must each folder on the way be, or be sticky. Needed wherever what is written is believed when it is
    read again. A recording is not: it is made where its user likes, and written through this handle alone.
    """
    root = os.geteuid() == 0
    strict = root or above
    if root and above:
        _check_above(path)
    try:
        _make(path)
        handle = os.open(path, _FOLDER | (os.O_NOFOLLOW if strict else 0))
    except OSError as error:
        if strict and os.path.islink(path):
            says = "a symbolic link, which is not followed: give the folder that it leads to"
        elif isinstance(error, FileExistsError | NotADirectoryError):
            says = "not a folder: give another one"
        else:
            says = f"cannot be {'opened' if os.path.lexists(path) else 'created'}: {why(error)}"
        raise UserError(f"{path}: {says}") from error
    if root and (says := _why_not_ours(path, os.fstat(handle))):
        os.close(handle)
        raise UserError(f"{path}: {says}")
    return handle


def private_file(name: str, folder: int, flags: int) -> int:
    """A file in such a folder, open; made if `flags` say so. No link is followed, and root's must be root's alone."""
    handle = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE_FILE, dir_fd=folder)
    found = os.fstat(handle)
    says = "" if stat.S_ISREG(found.st_mode) else "not a regular file"
    if not says and os.geteuid() == 0:
        says = _why_not_ours(name, found)
    if says:
        os.close(handle)
        raise Unreadable(name, f"{says}: remove it, or give another folder")
    return handle


def _check_above(path: str) -> None:
    """What there is of the way to a folder; the rest is made, and is root's."""
    above = os.path.dirname(path.rstrip("/")) or "/"
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    try:
        trusted(above, last=False)
    except Unreadable as error:
        raise UserError(f"{path}: {error.why}: give a folder that only root can change") from None


def _make(path: str) -> None:
    """As os.makedirs, but what it makes on the way is private too."""
    above = os.path.dirname(path)
    if above and not os.path.lexists(above):
        _make(above)
    try:
        os.mkdir(path, PRIVATE_FOLDER)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def _why_not_ours(path: str, found: os.stat_result) -> str:
    """Why root must not write into a folder: somebody else could read it, or put links into it."""
    private = command("chmod", "700", path)
    if found.st_uid != 0:
        try:
            whose = pwd.getpwuid(found.st_uid).pw_name
        except KeyError:
            whose = "nobody known"
        return (
            f"belongs to {whose} (uid {found.st_uid}), not to root: "
            f"give another folder, or: {command('chown', 'root:', path)} && {private}"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write to it (mode {stat.S_IMODE(found.st_mode):o}): give a folder in it, or: {private}"
    return ""


def _check_owner(path: str, status: os.stat_result, *, last: bool) -> None:
    if status.st_uid != 0:
        raise Unreadable(path, f"not trusted by root: {path} belongs to user {status.st_uid}, who could change it")
    if stat.S_ISLNK(status.st_mode):
        return  # nobody writes to a link: it is replaced, and that is up to its folder
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and not last
    if status.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if status.st_gid else 0)) and not sticky:
        raise Unreadable(path, f"not trusted by root: {path} can be written by others than root")


def why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
