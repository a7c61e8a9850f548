package http2

import "encoding/binary"

// SettingID names a parameter of SETTINGS. Others than these are ignored.
type SettingID uint16

// The parameters (RFC 9113, section 6.5.2; RFC 8441, section 3; RFC 9218, section 2.1).
const (
	HeaderTableSize       SettingID = 0x1
	EnablePush            SettingID = 0x2
	MaxConcurrentStreams  SettingID = 0x3
	InitialWindowSize     SettingID = 0x4
	MaxFrameSize          SettingID = 0x5
	MaxHeaderListSize     SettingID = 0x6
	EnableConnectProtocol SettingID = 0x8
	NoRFC7540Priorities   SettingID = 0x9
)

const settingSize = 6

// Settings are what a peer has told about itself: what we may send it.
type Settings struct {
	HeaderTableSize      uint32 // bytes
	MaxConcurrentStreams uint32 // 2^32-1 for no limit
	InitialWindowSize    uint32 // bytes, up to 2^31-1
	MaxFrameSize         uint32 // bytes, 2^14 to 2^24-1
	MaxHeaderListSize    uint32 // bytes, 32 more for each field; 2^32-1 for no limit
	EnablePush           bool
	ConnectProtocol      bool // it takes extended CONNECT
	NoPriorities         bool // it takes no notice of the priorities of RFC 7540
}

// InitialSettings are those of a peer that has sent none yet.
func InitialSettings() Settings {
	return Settings{
		HeaderTableSize: 4096, MaxConcurrentStreams: unlimited, InitialWindowSize: initialWindow,
		MaxFrameSize: minMaxFrame, MaxHeaderListSize: unlimited, EnablePush: true,
	}
}

// Change is what one SETTINGS frame changed.
type Change struct {
	// Named has bit ID set for each known parameter that was there, whether its value is new or not.
	Named uint16
	// TableSize is the least of the values of HEADER_TABLE_SIZE that were there: an encoder must
	// have gone through it before it uses the last one (RFC 7541, section 4.2). It counts where
	// Named has HeaderTableSize.
	TableSize uint32
	// Window is by how much INITIAL_WINDOW_SIZE grew, less than 0 where it shrank: every stream's
	// SendWindow moves by it.
	Window int32
}

// Has says whether the parameter was there.
func (c *Change) Has(id SettingID) bool { return c.Named>>id&1 != 0 }

// Apply takes the payload of a SETTINGS frame that is not an acknowledgement, from a client or from a
// server. Parameters count in their order, so the last of one kind stays. After an error, which is
// the connection's, s is undefined.
func (s *Settings) Apply(payload []byte, fromServer bool) (c Change, reason Reason) {
	window := s.InitialWindowSize
	for ; len(payload) >= settingSize; payload = payload[settingSize:] {
		id, v := SettingID(binary.BigEndian.Uint16(payload)), binary.BigEndian.Uint32(payload[2:])
		switch id {
		case HeaderTableSize:
			if s.HeaderTableSize = v; !c.Has(id) || v < c.TableSize {
				c.TableSize = v
			}
		case EnablePush:
			if s.EnablePush = v == 1; v > 1 || v == 1 && fromServer {
				return c, BadSetting
			}
		case MaxConcurrentStreams:
			s.MaxConcurrentStreams = v
		case InitialWindowSize:
			if s.InitialWindowSize = v; v > maxWindow {
				return c, BadWindow
			}
		case MaxFrameSize:
			if s.MaxFrameSize = v; v < minMaxFrame || v > maxMaxFrame {
				return c, BadSetting
			}
		case MaxHeaderListSize:
			s.MaxHeaderListSize = v
		case EnableConnectProtocol:
			if v > 1 || v == 0 && s.ConnectProtocol { // once given it cannot be taken back
				return c, BadSetting
			}
			s.ConnectProtocol = v == 1
		case NoRFC7540Priorities:
			if s.NoPriorities = v == 1; v > 1 {
				return c, BadSetting
			}
		default:
			continue
		}
		c.Named |= 1 << id
	}
	c.Window = int32(s.InitialWindowSize) - int32(window)
	return c, OK
}
