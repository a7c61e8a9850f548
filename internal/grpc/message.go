package grpc

// AppendMessage appends text as the value of grpc-message: what is not printable ASCII, and the
// percent sign, percent-encoded ("Status-Message" in PROTOCOL-HTTP2). text should be UTF-8; bytes
// that are not are encoded as they are. It takes at most three bytes for one.
func AppendMessage(out, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c > '~' || c == '%' {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
			continue
		}
		out = append(out, c)
	}
	return out
}

const upperHex = "0123456789ABCDEF"

// AppendDecodedMessage appends the text that the value of grpc-message stands for. What is no
// correct encoding stays as it is: the specification forbids to lose a message for that. The text
// may hold any bytes.
func AppendDecodedMessage(out, value []byte) []byte {
	for i := 0; i < len(value); i++ {
		if value[i] == '%' && i+2 < len(value) {
			high, low := unhex(value[i+1]), unhex(value[i+2])
			if high < 16 && low < 16 {
				out = append(out, high<<4|low)
				i += 2
				continue
			}
		}
		out = append(out, value[i])
	}
	return out
}

// unhex is the value of a hexadecimal digit, 16 and above for anything else.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 16
}
