package store

import "golang.org/x/sys/unix"

const adviceRelease = unix.MADV_FREE
