"""Program, run inside fresh namespaces: prepare network and file system, give up privileges, run a command.

``unshare ... python -I _enter.py SPEC COMMAND...`` with SPEC as JSON:

- ``network``: ``none`` or ``sink`` brings loopback up, ``sink`` also routes everything into it, where packets
  to other hosts are dropped (a connect hangs until its own timeout, or for 3 s); ``host`` changes nothing.
- ``root``: absent, or ``{mounts: [[source, target, writable]], links: {target: text}, scratch: {target: MiB},
  environment: {}, at: folder}``: a new root holding nothing else, built on a tmpfs over ``at``.

Standard library only, and nothing of this package: it runs with ``-I`` before anything is isolated.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import warnings  # noqa: F401  os.execvpe imports it, at a time when the standard library is no longer visible

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MOUNT_ATTR_RDONLY, AT_RECURSIVE, AT_FDCWD = 1, 0x8000, -100
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_MOUNT_SETATTR = 442
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_PDEATHSIG = 38, 24, 1
KEPT_CAPABILITIES = {0, 1, 3}  # chown, dac_override, fowner: what root may do to files it can see anyway
SIOCSIFFLAGS, SIOCADDRT = 0x8914, 0x890B
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    check(libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), f"mount {target}")


def set_read_only(target: str, flags: int = AT_RECURSIVE) -> None:
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), flags, attributes, len(attributes))
    check(result, f"mount_setattr {target}")


def start_network(mode: str) -> None:
    if mode == "host":
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", 0x49))  # up, running, loopback
        if mode == "sink":
            device = ctypes.create_string_buffer(b"lo")
            anywhere = struct.pack("HH4s8x", socket.AF_INET, 0, b"\0" * 4)
            route = struct.pack(
                "@L16s16s16sHhLBB3hhPLLH",
                0, anywhere, anywhere, anywhere, 1, 0, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(device), 0, 0, 0,
            )  # fmt: skip
            fcntl.ioctl(control, SIOCADDRT, route.ljust(120, b"\0"))
            with open("/proc/sys/net/ipv4/tcp_syn_retries", "w") as retries:
                retries.write("1")  # of this namespace: a connect without a timeout of its own gives up after 3 s


def build_root(spec: dict) -> None:  # type: ignore[type-arg]
    """Assemble the new root and make it ``/``; the old one is unmounted, so it cannot be reached again."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    root = spec["at"]
    mount("elo", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=755")
    for target, text in spec["links"].items():
        make_parent(root + target)
        os.symlink(text, root + target)
    for target, size_mb in {"/dev/shm": 64, **spec["scratch"]}.items():
        os.makedirs(root + target, exist_ok=True)
        mount("elo", root + target, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size_mb}m,mode=1777")
    for source, target, writable in spec["mounts"]:  # after the scratch: a source's path may be below /tmp
        make_mount_point(root + target, os.path.isdir(source))
        mount(source, root + target, None, MS_BIND | MS_REC)
        if not writable:
            set_read_only(root + target)
    make_devices(root)
    os.makedirs(root + "/proc", exist_ok=True)
    mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV)
    for name in (
        "sys",
        "sysrq-trigger",
        "irq",
        "bus",
    ):  # writable to the host's root user, capabilities or not
        path = f"{root}/proc/{name}"
        if os.path.exists(path):
            mount(path, path, None, MS_BIND | MS_REC)
            set_read_only(path)
    os.makedirs(root + "/.old")
    set_read_only(root, 0)
    os.chdir(root)
    check(libc.syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b".old"), "pivot_root")
    os.chdir("/")
    check(libc.umount2(b"/.old", 2), "umount")


def make_devices(root: str) -> None:
    os.makedirs(root + "/dev", exist_ok=True)
    for name in DEVICES:
        make_mount_point(f"{root}/dev/{name}", False)
        mount(f"/dev/{name}", f"{root}/dev/{name}", None, MS_BIND)
    for name, target in {
        "fd": "/proc/self/fd",
        "stdin": "/proc/self/fd/0",
        "stdout": "/proc/self/fd/1",
    }.items():
        os.symlink(target, f"{root}/dev/{name}")
    os.symlink("/proc/self/fd/2", root + "/dev/stderr")


def make_parent(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)


def make_mount_point(path: str, folder: bool) -> None:
    if folder:
        os.makedirs(path, exist_ok=True)
    else:
        make_parent(path)
        with open(path, "a"):
            pass


def drop_privileges() -> None:
    for capability in range(64):
        if capability not in KEPT_CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    kept = sum(1 << capability for capability in KEPT_CAPABILITIES)
    header = struct.pack("II", 0x20080522, 0)
    check(libc.capset(header, struct.pack("IIIIII", kept, kept, 0, 0, 0, 0)), "capset")


def run_as_init(command: list[str], environment: dict[str, str]) -> int:
    """Run the command as a child of pid 1, so that signals mean to it what they mean outside."""
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.setsid()
        drop_privileges()
        os.execvpe(command[0], command, environment)
    while True:
        pid, status = os.wait()
        if pid == child:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main() -> None:
    spec, command = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        start_network(spec["network"])
        if spec.get("root") is None:
            os.execvp(command[0], command)
        build_root(spec["root"])
    except OSError as error:
        sys.exit(f"sandbox: {error}")
    sys.exit(run_as_init(command, spec["root"]["environment"]))


if __name__ == "__main__":
    main()
