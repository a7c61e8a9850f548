package files

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// maxListed is the largest number of names listed for a directory.
const maxListed = 10_000

// The forms of a listing, as indexes of entry.files.
const (
	listedHTML = iota
	listedJSON
)

// listingFor is the form that suits the request: JSON if it names JSON in Accept and does not name
// HTML.
func listingFor(x *exchange.Exchange) int {
	for i := range x.Request.Fields.Len() {
		if f := x.Request.Fields.At(i); f.ID == head.Accept &&
			bytes.Contains(f.Value, []byte("application/json")) && !bytes.Contains(f.Value,
			[]byte("text/html")) {
			return listedJSON
		}
	}
	return listedHTML
}

// listed is one name in a directory. Its tags are the keys of a JSON listing.
type listed struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"` // "file" or "directory"
	Size     int64     `json:"size,omitempty"`
	Modified time.Time `json:"modified"`
}

// list makes the listing of a directory. It lists only what would be served.
func (s *store) list(e *entry) error {
	fd, err := s.root.open(e.key, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), e.key)
	defer dir.Close()
	entries, err := dir.ReadDir(maxListed)
	if err != nil && err != io.EOF {
		return err
	}
	all := make([]listed, 0, len(entries))
	for _, entry := range entries {
		if name := entry.Name(); name[0] != '.' || s.o.Dotfiles {
			if st, err := s.root.look(e.key + name); err == nil {
				all = appendListed(all, name, &st)
			}
		}
	}
	slices.SortFunc(all, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Name, b.Name))
	})
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	e.kind = isListing
	e.files = []*file{
		listedHTML: {fd: -1, content: htmlListing("/"+e.key, all),
			contentType: exchange.StaticField("Content-Type", "text/html; charset=utf-8")},
		listedJSON: {fd: -1, content: append(text, '\n'),
			contentType: exchange.StaticField("Content-Type", "application/json")},
	}
	return nil
}

func appendListed(all []listed, name string, st *unix.Stat_t) []listed {
	sec, nsec := modifiedAt(st)
	one := listed{Name: strings.ToValidUTF8(name, "\ufffd"), Type: "file", Size: st.Size,
		Modified: time.Unix(sec, nsec).UTC()}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		one.Type, one.Size = "directory", 0
	default:
		return all
	}
	return append(all, one)
}

// htmlListing is a listing as a page. Names may contain any bytes. They are escaped in text and
// encoded in links. Links begin with "./" so that no name is read as a scheme.
func htmlListing(path string, all []listed) []byte {
	var b bytes.Buffer
	title := html.EscapeString(strings.ToValidUTF8(path, "\ufffd"))
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>%s</title></head>\n"+
		"<body><h1>%s</h1>\n<table>\n", title, title)
	if path != "/" {
		b.WriteString("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n")
	}
	for _, one := range all {
		slash, size := "", fmt.Sprint(one.Size)
		if one.Type == "directory" {
			slash, size = "/", ""
		}
		fmt.Fprintf(&b, "<tr><td><a href=\"./%s%s\">%s%s</a></td><td>%s</td><td>%s</td></tr>\n",
			html.EscapeString(url.PathEscape(one.Name)), slash, html.EscapeString(one.Name), slash, size,
			one.Modified.Format(time.DateTime))
	}
	b.WriteString("</table></body></html>\n")
	return b.Bytes()
}
