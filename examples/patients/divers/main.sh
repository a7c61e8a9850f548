#!/bin/sh
# divers tells who is under water. Its start script allows each process 64 descriptors, a line that
# was written for another service, and each request takes two: one for the client, and one for the
# buoy that is asked. Node closes the connections beyond.
#
# Cured, the script leaves the limit alone.
set -eu
here=$(dirname "$0")
case " $* " in
*" --cured "*) ;;
*) ulimit -n 64 ;;
esac
exec node "$here/divers.js" "$@"
