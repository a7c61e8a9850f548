package gateway

import (
	"net"
	"testing"
)

func TestTheAdminAddress0000IsNotOpenToIPv6(t *testing.T) {
	ln, err := new(inherited).admin("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if ip := ln.Addr().(*net.TCPAddr).IP; ip.To4() == nil {
		t.Errorf("0.0.0.0 was opened as %v", ip)
	}
}
