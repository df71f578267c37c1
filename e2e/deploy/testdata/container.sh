# Runs a program as a container runs it: as process 1, as user 65532 without any
# right, on a root that is read-only but for the folder $WRITABLE.
#
#   unshare --mount --pid --fork --mount-proc --kill-child sh container.sh PROGRAM ARGUMENT...
set -e
mount --make-rprivate /
[ -z "$WRITABLE" ] || mount -t tmpfs -o uid=65532,gid=65532,mode=0700 tmpfs "$WRITABLE"
mount -o remount,bind,ro /
exec setpriv --reuid=65532 --regid=65532 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
