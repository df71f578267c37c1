# Boots systemd as process 1 of namespaces of its own, on a root that is this
# machine's with what it writes kept in memory: nothing is left when it ends.
#
#   unshare --pid --fork --mount --cgroup --uts --ipc --kill-child sh boot.sh FOLDER SCRIPT
#
# FOLDER is where the new root is mounted. SCRIPT is read before systemd starts,
# with $R, the new root. The network is the machine's.
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
R=$1/root
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$R"

mount -t proc proc "$R/proc"
mount --rbind /sys "$R/sys"
umount -l "$R/sys/fs/cgroup" || true # of another namespace
mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup"
mount -t tmpfs tmpfs "$R/run"
mount -t tmpfs tmpfs "$R/tmp"
mount -t tmpfs tmpfs "$R/dev" # so that it does not write to the machine's console
for name in null zero full random urandom tty; do
  touch "$R/dev/$name"
  mount --bind "/dev/$name" "$R/dev/$name"
done
ln -s pts/ptmx "$R/dev/ptmx"
mkdir "$R/dev/pts" "$R/dev/shm"

# No units but those of the test, and the targets that they name.
units=$R/etc/systemd/system
mkdir -p "$units"
mount -t tmpfs tmpfs "$units"
for name in basic multi-user network-online shutdown sockets sysinit; do
  printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' "$name" > "$units/$name.target"
done
. "$2"

cd "$R"
mkdir -p old
pivot_root . old
umount -l /old
cd /
exec env -i container=test SYSTEMD_UNIT_PATH=/etc/systemd/system PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=multi-user.target --log-target=null --show-status=no
