package grpc_test

import (
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"

	"plimsoll/internal/grpc"
)

// grpc-go reads the names of codes from JSON, by the names of the specification.
func TestCodesAreThoseOfGRPC(t *testing.T) {
	for c := range grpc.Codes {
		var theirs codes.Code
		if err := theirs.UnmarshalJSON([]byte(strconv.Quote(c.String()))); err != nil || uint32(theirs) != uint32(c) {
			t.Errorf("code %d is %s; for grpc-go that is %d (%v)", c, c, theirs, err)
		}
		text := grpc.AppendCode(nil, c)
		if string(text) != strconv.Itoa(int(c)) {
			t.Errorf("code %d is written %q", c, text)
		}
		if back, ok := grpc.ParseCode(text); back != c || !ok {
			t.Errorf("%q is read as %v %v", text, back, ok)
		}
	}
	if got := grpc.Code(17).String(); got != "CODE_17" {
		t.Errorf("code 17 is %s", got)
	}
}

func TestCodesThatAreNone(t *testing.T) {
	for text, number := range map[string]bool{
		"17": true, "255": true, "999999999": true,
		"": false, "-1": false, "+1": false, " 1": false, "1 ": false, "1,1": false, "OK": false, "1000000000": false,
	} {
		if code, ok := grpc.ParseCode([]byte(text)); code != grpc.Unknown || ok != number {
			t.Errorf("%q is read as %v %v", text, code, ok)
		}
	}
	for text, want := range map[string]grpc.Code{"00": grpc.OK, "014": grpc.Unavailable} {
		if code, ok := grpc.ParseCode([]byte(text)); code != want || !ok {
			t.Errorf("%q is read as %v %v", text, code, ok)
		}
	}
}

// The table of http-grpc-status-mapping.md.
func TestFromHTTP(t *testing.T) {
	want := map[int]grpc.Code{
		400: grpc.Internal, 401: grpc.Unauthenticated, 403: grpc.PermissionDenied, 404: grpc.Unimplemented,
		429: grpc.Unavailable, 502: grpc.Unavailable, 503: grpc.Unavailable, 504: grpc.Unavailable,
	}
	for status := range 1000 {
		code, named := want[status]
		if !named {
			code = grpc.Unknown
		}
		if got := grpc.FromHTTP(status); got != code {
			t.Errorf("status %d is %v, want %v", status, got, code)
		}
	}
}
