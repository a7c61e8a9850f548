package replay

import "errors"

// variable is the meaning of a field of a log. The parsers of all formats fill the same variables.
type variable uint8

const (
	vNone variable = iota
	vTime
	vRequest // method, target and version, as in the request line
	vMethod
	vTarget // path and query
	vQuery  // the query alone, if the target has none
	vHost
	vStatus
	vAgent
	vTook // the request's duration: the log's time is then that of its end
	variables
)

// fieldNames are the names of the variables in Options.Fields.
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

// record is the result of parsing a line: its variables, unescaped, nil if missing. The values
// point into the line or into scratch and are valid until the next line.
type record struct {
	values [variables][]byte
	rank   [variables]uint8 // rank of a JSON value's name: the lowest counts
	// kind and body are the type and the content of a HAR's request body.
	kind, body []byte
	scratch    []byte
	// line is the whole line, for an example. bad says why it cannot be read.
	line []byte
	bad  error
}

func (r *record) reset() {
	*r = record{scratch: r.scratch[:0]}
}

// take keeps a value, unescaped.
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

// The reasons why a line cannot be read. They are made once, because a log may have millions of bad
// lines.
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

// source returns the records of a log one by one.
type source interface {
	// next fills r, or sets r.bad to the reason why it cannot. io.EOF is the end; any other error
	// ends the log early.
	next(r *record) error
}

// parser reads one line.
type parser interface {
	parse(line []byte, r *record) error
}
