package http2

import "encoding/binary"

// SettingID names a parameter of SETTINGS. Other parameters are ignored.
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

// Settings are a peer's settings, which say what we may send it.
type Settings struct {
	HeaderTableSize      uint32 // bytes
	MaxConcurrentStreams uint32 // 2^32-1 for no limit
	InitialWindowSize    uint32 // bytes, up to 2^31-1
	MaxFrameSize         uint32 // bytes, 2^14 to 2^24-1
	MaxHeaderListSize    uint32 // bytes, 32 more for each field; 2^32-1 for no limit
	EnablePush           bool
	ConnectProtocol      bool // it accepts extended CONNECT
	NoPriorities         bool // it ignores the priorities of RFC 7540
}

// InitialSettings are the settings of a peer that has not sent any yet.
func InitialSettings() Settings {
	return Settings{
		HeaderTableSize: 4096, MaxConcurrentStreams: unlimited, InitialWindowSize: initialWindow,
		MaxFrameSize: minMaxFrame, MaxHeaderListSize: unlimited, EnablePush: true,
	}
}

// Change is what one SETTINGS frame changed.
type Change struct {
	// Named has bit ID set for each known parameter in the frame, whether or not its value is new.
	Named uint16
	// TableSize is the smallest of the values of HEADER_TABLE_SIZE in the frame: an encoder must
	// signal it before the last one (RFC 7541, section 4.2). It is valid if Named has
	// HeaderTableSize.
	TableSize uint32
	// Window is by how many bytes INITIAL_WINDOW_SIZE grew, negative if it shrank. Every stream's
	// SendWindow moves by it.
	Window int32
}

// Has reports whether the parameter was in the frame.
func (c *Change) Has(id SettingID) bool { return c.Named>>id&1 != 0 }

// Apply applies the payload of a SETTINGS frame that is not an acknowledgement. fromServer says
// that the peer is a server. Parameters are applied in order, so the last value of a parameter
// counts. An error is a connection error; s is then undefined.
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
			if v > 1 || v == 0 && s.ConnectProtocol { // once set, it cannot be withdrawn
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
