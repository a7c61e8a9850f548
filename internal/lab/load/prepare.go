package load

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"plimsoll/internal/head"
)

// userAgent is the default User-Agent.
const userAgent = "plimsoll"

// Prepare makes the bytes of a request: the request line, Host first, the fields of header ("Name:
// value" each), and the body. A Host or User-Agent in header replaces the default. Content-Length
// is added if there is a body or the method requires one. An empty method is GET. Errors are one
// line and name the field.
func Prepare(target Target, method string, header []string, body []byte) ([]byte, error) {
	if method == "" {
		method = "GET"
	}
	if !head.IsToken([]byte(method)) || method == "CONNECT" {
		return nil, fmt.Errorf("method %q cannot be sent: use GET, HEAD, POST, PUT, PATCH, "+
			"DELETE, OPTIONS or another name of letters", method)
	}
	host, agent := target.Authority, userAgent
	var fields bytes.Buffer
	for _, line := range header {
		name, value, err := field(line)
		if err != nil {
			return nil, err
		}
		switch strings.ToLower(name) {
		case "host":
			host = value
			continue
		case "user-agent":
			agent = value
			continue
		case "content-length":
			if value != strconv.Itoa(len(body)) {
				return nil, fmt.Errorf("header %q disagrees with the body's %d bytes: "+
					"leave it out, it is added", line, len(body))
			}
			continue
		case "transfer-encoding":
			return nil, fmt.Errorf("header %q cannot be sent, as the body is sent with its "+
				"length: leave it out", line)
		case "upgrade":
			return nil, fmt.Errorf("header %q cannot be sent: a load does not change a "+
				"connection's protocol", line)
		}
		fmt.Fprintf(&fields, "%s: %s\r\n", name, value)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n",
		method, target.Path, host, agent)
	out.Write(fields.Bytes())
	if len(body) > 0 || method == "POST" || method == "PUT" || method == "PATCH" {
		fmt.Fprintf(&out, "Content-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes(), nil
}

// field returns the name and the value of "Name: value".
func field(line string) (name, value string, err error) {
	name, value, found := strings.Cut(line, ":")
	switch {
	case !found:
		return "", "", fmt.Errorf("header %q has no colon: write it as \"Name: value\"", line)
	case !head.IsToken([]byte(name)):
		return "", "", fmt.Errorf("header %q: a name is letters, digits and hyphens, "+
			"without spaces", line)
	}
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", "", fmt.Errorf("header %q: the value must not contain the control "+
				"character at its byte %d", name, i+1)
		}
	}
	return name, value, nil
}
