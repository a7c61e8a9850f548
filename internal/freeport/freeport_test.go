package freeport

import (
	"fmt"
	"net"
	"testing"
)

func TestPortsAreDifferentAndFreeOnAnyAddress(t *testing.T) {
	ports, err := Find(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Errorf("port %d twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

func TestPortsAreNotThoseOfOutgoingConnections(t *testing.T) {
	low := ephemeral()
	if low < lowest+2*attempts {
		t.Logf("outgoing connections use ports from %d: there is no room below", low)
		return
	}
	ports, err := Find(50)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		if port < lowest || port >= low {
			t.Errorf("port %d is not within %d to %d", port, lowest, low-1)
		}
	}
}

func TestWhereTheRangeLeavesNoRoomTheKernelPicks(t *testing.T) {
	for _, below := range []int{0, lowest, lowest + 1} {
		l, err := listen(below)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
