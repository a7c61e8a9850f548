package http2_test

import (
	"testing"

	"plimsoll/internal/http2"
)

func TestSettings(t *testing.T) {
	type list []http2.Setting
	for _, c := range []struct {
		what       string
		list       list
		fromServer bool
		want       http2.Reason
		change     http2.Change
	}{
		{"none", nil, false, http2.OK, http2.Change{}},
		{"unknown ones", list{{0x7, 1}, {0xa, 1}, {0x4242, 1<<32 - 1}}, false, http2.OK, http2.Change{}},
		{"a table's least size", list{{http2.HeaderTableSize, 100}, {http2.HeaderTableSize, 0},
			{http2.HeaderTableSize, 8192}}, false, http2.OK,
			http2.Change{Named: 1 << http2.HeaderTableSize}},
		{"a client that takes no pushes", list{{http2.EnablePush, 0}}, false, http2.OK, http2.Change{Named: 1 << http2.EnablePush}},
		{"a client that takes pushes", list{{http2.EnablePush, 1}}, false, http2.OK, http2.Change{Named: 1 << http2.EnablePush}},
		{"a server that takes pushes", list{{http2.EnablePush, 1}}, true, http2.BadSetting, http2.Change{}},
		{"pushes of 2", list{{http2.EnablePush, 2}}, false, http2.BadSetting, http2.Change{}},
		{"a smaller window", list{{http2.InitialWindowSize, 0}}, false, http2.OK,
			http2.Change{Named: 1 << http2.InitialWindowSize, Window: -65535}},
		{"the last window", list{{http2.InitialWindowSize, 0}, {http2.InitialWindowSize, 1<<31 - 1}}, false, http2.OK,
			http2.Change{Named: 1 << http2.InitialWindowSize, Window: 1<<31 - 1 - 65535}},
		{"too large a window", list{{http2.InitialWindowSize, 1 << 31}}, false, http2.BadWindow, http2.Change{}},
		{"too large a window, taken back", list{{http2.InitialWindowSize, 1 << 31},
			{http2.InitialWindowSize, 1}}, false, http2.BadWindow, http2.Change{}},
		{"frames too small", list{{http2.MaxFrameSize, 1<<14 - 1}}, false, http2.BadSetting, http2.Change{}},
		{"frames too large", list{{http2.MaxFrameSize, 1 << 24}}, false, http2.BadSetting, http2.Change{}},
		{"frames of any size", list{{http2.MaxFrameSize, 1 << 14}, {http2.MaxFrameSize, 1<<24 - 1}},
			false, http2.OK, http2.Change{Named: 1 << http2.MaxFrameSize}},
		{"limits", list{{http2.MaxConcurrentStreams, 0}, {http2.MaxHeaderListSize, 1}}, false, http2.OK,
			http2.Change{Named: 1<<http2.MaxConcurrentStreams | 1<<http2.MaxHeaderListSize}},
		{"extended CONNECT", list{{http2.EnableConnectProtocol, 0}, {http2.EnableConnectProtocol,
			1}}, true, http2.OK, http2.Change{Named: 1 << http2.EnableConnectProtocol}},
		{"extended CONNECT, taken back", list{{http2.EnableConnectProtocol, 1},
			{http2.EnableConnectProtocol, 0}}, true, http2.BadSetting, http2.Change{}},
		{"extended CONNECT of 2", list{{http2.EnableConnectProtocol, 2}}, true, http2.BadSetting, http2.Change{}},
		{"no priorities", list{{http2.NoRFC7540Priorities, 1}}, true, http2.OK, http2.Change{Named: 1 << http2.NoRFC7540Priorities}},
		{"no priorities of 2", list{{http2.NoRFC7540Priorities, 2}}, true, http2.BadSetting, http2.Change{}},
	} {
		s := http2.InitialSettings()
		got, reason := s.Apply(http2.AppendSettings(nil, c.list...)[http2.HeaderSize:], c.fromServer)
		if reason != c.want || reason == http2.OK && got != c.change {
			t.Errorf("%s: %v, %+v", c.what, reason, got)
		}
		for _, setting := range c.list {
			if reason == http2.OK && got.Named != 0 && !got.Has(setting.ID) {
				t.Errorf("%s: setting %d is not named", c.what, setting.ID)
			}
		}
	}
}
