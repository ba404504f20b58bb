#!/bin/sh
# Installs, upgrades, removes and purges the Debian package, on a copy of this machine's file system that
# is thrown away:
#
#     unshare --mount --propagation private sh install.sh PLACE FIRST.deb SECOND.deb
set -eu

fail() { echo "wrong: $*" >&2; exit 1; }

if [ "$1" != inside ]; then
    place=$1
    mount -t tmpfs tmpfs "$place"
    mkdir "$place/upper" "$place/work" "$place/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/root"
    for folder in proc dev; do mount --rbind "/$folder" "$place/root/$folder"; done
    # No manager of services is there, and none would be asked.
    mount -t tmpfs tmpfs "$place/root/run"
    mkdir "$place/root/packages"
    cp "$2" "$place/root/packages/first.deb"
    cp "$3" "$place/root/packages/second.deb"
    cp "$0" "$place/root/packages/install.sh"
    exec chroot "$place/root" /bin/sh /packages/install.sh inside
fi

cd /packages
data=/var/lib/roadstead
env=/etc/roadstead.env
link=/etc/systemd/system/multi-user.target.wants/roadstead.service
as_user() { setpriv --reuid roadstead --regid roadstead --clear-groups "$@"; }
state() { dpkg-query -W -f '${Status}' roadstead 2> /dev/null || true; }

echo '== installed'
dpkg -i first.deb
[ "$(stat -c '%U %G %a' $data)" = 'roadstead roadstead 700' ] || fail "$(stat $data)"
[ "$(stat -c '%U %a' $env)" = 'root 600' ] || fail "$(stat $env)"
[ -L $link ] || fail 'the unit is not enabled'
roadstead version > /dev/null
echo 'correct horse battery' | as_user roadstead init --org acme --org-name Acme \
    --email ada@acme.test --name Ada --password-stdin --data $data > /dev/null
echo ROADSTEAD_RATE_LIMIT=7 >> $env

echo '== upgraded, with settings that were changed on both sides, and disabled'
rm $link
dpkg --force-confold -i second.deb
grep -q '^ROADSTEAD_RATE_LIMIT=7$' $env || fail 'the settings are gone'
grep -q 'of the second' $env.dpkg-dist || fail 'the new settings are nowhere'
[ ! -L $link ] || fail 'the unit was enabled against the will of the administrator'
as_user roadstead check --data $data

echo '== removed'
dpkg -r roadstead
[ ! -e /usr/bin/roadstead ] || fail 'the program is there'
[ -e $env ] || fail 'the settings are gone'
[ -e $data/format ] || fail 'the data are gone'

echo '== purged'
dpkg -P roadstead
[ ! -e $env ] || fail 'the settings are there'
[ -e $data/format ] || fail 'the data are gone'
[ "$(state)" = '' ] || fail "$(state)"

echo '== installed again, over the same data, and purged with them'
dpkg -i second.deb
[ -L $link ] || fail 'the unit is not enabled'
as_user roadstead check --data $data
ROADSTEAD_PURGE_DATA=yes dpkg -P roadstead
[ ! -e $data ] || fail 'the data are there'

echo '== purged without data'
dpkg -i first.deb
dpkg -P roadstead
[ ! -e $data ] || fail 'an empty directory is left'
