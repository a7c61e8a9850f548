package replay

import "errors"

// variable is what a field of a log tells. The parsers of all formats fill the same ones.
type variable uint8

const (
	vNone variable = iota
	vTime
	vRequest // method, target and version, as the request line has them
	vMethod
	vTarget // path and query
	vQuery  // the query alone, where the target has none
	vHost
	vStatus
	vAgent
	vTook // how long the request took: the log's time is then that of its end
	variables
)

// fieldNames are the variables as Options.Fields calls them.
var fieldNames = map[string]variable{
	"time":         vTime,
	"request":      vRequest,
	"method":       vMethod,
	"path":         vTarget,
	"query":        vQuery,
	"host":         vHost,
	"status":       vStatus,
	"user_agent":   vAgent,
	"request_time": vTook,
}

// record is a line as its format's parser left it: the variables it had, unescaped, nil where it
// had none. The values point into the line or into scratch and are valid until the next line.
type record struct {
	values [variables][]byte
	rank   [variables]uint8 // of the name a JSON value was found under: the lowest counts
	// kind and body are those of a HAR's request body.
	kind, body []byte
	scratch    []byte
	// line is the whole line, for an example, and bad why it cannot be read.
	line []byte
	bad  error
}

func (r *record) reset() {
	*r = record{scratch: r.scratch[:0]}
}

// take keeps a value, with its escapes undone.
func (r *record) take(v variable, raw []byte, escaped bool) error {
	if escaped {
		from := len(r.scratch)
		var ok bool
		if r.scratch, ok = unescape(r.scratch, raw); !ok {
			return errEscape
		}
		raw = r.scratch[from:]
	}
	r.values[v] = raw
	return nil
}

// Why a line cannot be read. They are made once, as a log may have millions of them.
var (
	errTooLong   = errors.New("the line is longer than 64 KB")
	errShape     = errors.New("it is not of the log's format")
	errEscape    = errors.New("it has an invalid escape")
	errTime      = errors.New("its time is invalid, or outside the years 1970 to 2200")
	errNoTime    = errors.New("it has no time")
	errRequest   = errors.New("its request is not METHOD TARGET HTTP/x")
	errNoMethod  = errors.New("it has no method")
	errNoTarget  = errors.New("it has no path")
	errTarget    = errors.New("its path is not a path, * or http URL that a request can have")
	errCharacter = errors.New("its request has a character that no request can have")
	errStatus    = errors.New("its status is not a number of three digits")
	errTook      = errors.New("the time its request took is invalid")
	errHost      = errors.New("its host is invalid")
	errTooLarge  = errors.New("its request is larger than 16 KB, or its body than 64 KB")
	errJSON      = errors.New("it is not a JSON object on one line")
)

// source gives the records of a log, one after the other.
type source interface {
	// next fills r, or says in r.bad why it cannot. io.EOF is the end; another error ends the log
	// early.
	next(r *record) error
}

// parser reads one line.
type parser interface {
	parse(line []byte, r *record) error
}
