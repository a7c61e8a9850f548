package exchange

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"plimsoll/internal/head"
)

// StaticOptions are an answer that is given by the configuration.
type StaticOptions struct {
	Status  int               // 200 to 599. Default: 200
	Headers map[string]string // sent in alphabetical order
	// Body is retained and must not be changed. Without a Content-Type header it is text/plain in
	// UTF-8.
	Body []byte
}

// Static is an answer that is the same for every exchange. It is made once and sent by all loops.
type Static struct {
	status int
	fields []head.Field
	body   []byte
}

// NewStatic checks the options and makes the answer.
func NewStatic(o StaticOptions) (*Static, error) {
	s := &Static{status: o.Status, body: o.Body}
	if s.status == 0 {
		s.status = http.StatusOK
	}
	if s.status < 200 || s.status > 599 {
		return nil, fmt.Errorf("an answer with status %d; give 200 to 599", s.status)
	}
	switch s.status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		if len(s.body) > 0 {
			return nil, fmt.Errorf("an answer with status %d has no body; leave it out", s.status)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		value := o.Headers[name]
		if err := CheckFieldName(name); err != nil {
			return nil, err
		}
		if err := CheckFieldValue(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if strings.EqualFold(name, "Host") {
			//lint:ignore ST1005 Host is a name
			return nil, fmt.Errorf("Host is a field of requests; leave it out")
		}
		s.fields = append(s.fields, StaticField(name, value))
	}
	typed := slices.ContainsFunc(s.fields, func(f head.Field) bool { return f.ID == head.ContentType })
	if len(s.body) > 0 && !typed {
		s.fields = append(s.fields, plainText)
	}
	return s, nil
}

// Answer answers the exchange with s, for the given reason. It allocates nothing.
func (s *Static) Answer(x *Exchange, reason Reason) {
	x.Answer(s.status, reason, s.body)
	s.addFields(x)
}

// AnswerFrom is Answer with a body from a source instead of the body of s.
func (s *Static) AnswerFrom(x *Exchange, reason Reason, length int64, source Source) {
	x.AnswerFrom(s.status, reason, length, source)
	s.addFields(x)
}

func (s *Static) addFields(x *Exchange) {
	for i := range s.fields {
		x.Response.Fields.Append(s.fields[i])
	}
}
