package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"plimsoll/internal/grpc"
)

// A check by grpc.health.v1 is one unary call. net/http sends it over HTTP/2, and its two messages
// have one field each, so it needs neither a gRPC client nor generated code.

// healthMethod is the path of the method that is called (gRPC's health-checking.md).
const healthMethod = "/grpc.health.v1.Health/Check"

// healthServing is HealthCheckResponse.ServingStatus SERVING.
const healthServing = 1

// healthNames holds the names of all ServingStatus values, by number.
var healthNames = [...]string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

// healthField is the number of the only field in each of the two messages: the service's name in
// the request, and its state in the response.
const healthField protowire.Number = 1

// grpcProbe asks a target for the health of a service, "" for the server as a whole. Like httpProbe
// it uses a new connection. Any state other than SERVING is an error. So is the answer of a server
// that has no health service or does not know the service's name: it says nothing about the health,
// and the operator who configured the check must learn of it.
func (u *Upstream) grpcProbe(ctx context.Context, t *Target, service string) error {
	transport := u.grpcTransport(ctx, t)
	defer transport.CloseIdleConnections()
	scheme := "http"
	if u.options.TLS != nil {
		scheme = "https"
	}
	body := healthRequest(service)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		scheme+"://"+t.addr.Authority()+healthMethod, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if h := u.options.Active.Host; h != "" {
		req.Host = h
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("User-Agent", "plimsoll-health")
	if deadline, ok := ctx.Deadline(); ok {
		left := grpc.AppendTimeout(nil, int64(time.Until(deadline)))
		req.Header.Set("Grpc-Timeout", string(left))
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return healthAnswer(resp)
}

// grpcTransport returns a transport that speaks only HTTP/2 to a target: by ALPN with TLS, by prior
// knowledge without.
func (u *Upstream) grpcTransport(check context.Context, t *Target) *http.Transport {
	transport := &http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: checkBody,
		Protocols:              new(http.Protocols),
		DialContext:            dialForCheck(check, t.addr),
	}
	if u.options.TLS == nil {
		transport.Protocols.SetUnencryptedHTTP2(true)
		return transport
	}
	transport.Protocols.SetHTTP2(true)
	transport.TLSClientConfig = u.options.TLS.Clone()
	transport.TLSClientConfig.NextProtos = []string{"h2"}
	transport.TLSClientConfig.VerifyConnection = spokenHTTP2(u.options.TLS.VerifyConnection)
	return transport
}

// spokenHTTP2 returns a VerifyConnection that also requires that the target has chosen HTTP/2. A
// target without ALPN would otherwise be sent HTTP/1.1. verify may be nil.
func spokenHTTP2(verify func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if s.NegotiatedProtocol != "h2" {
			return errors.New("the target does not offer HTTP/2 over TLS (ALPN h2), which gRPC needs")
		}
		if verify != nil {
			return verify(s)
		}
		return nil
	}
}

// healthRequest returns the body of a request: one HealthCheckRequest for a service, with its gRPC
// message head.
func healthRequest(service string) []byte {
	b := make([]byte, grpc.HeadSize)
	if service != "" {
		b = protowire.AppendTag(b, healthField, protowire.BytesType)
		b = protowire.AppendString(b, service)
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-grpc.HeadSize))
	return b
}

// healthAnswer returns an error unless the response says that the service is SERVING. The error is
// shown and logged, so it contains no text from the service.
func healthAnswer(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d, where gRPC has 200", resp.StatusCode)
	}
	if grpc.KindOf([]byte(resp.Header.Get("Content-Type"))) != grpc.Native {
		return errors.New("the answer is not application/grpc")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, checkBody))
	if err != nil {
		return err
	}
	if len(body) == checkBody {
		return fmt.Errorf("the answer has %d bytes or more, where a few are expected", checkBody)
	}
	text := resp.Trailer.Get("Grpc-Status")
	if text == "" {
		text = resp.Header.Get("Grpc-Status") // a response without a message has it in its head
	}
	code, ok := grpc.ParseCode([]byte(text))
	switch {
	case !ok:
		return errors.New("the answer has no grpc-status")
	case code == grpc.Unimplemented:
		return errors.New("grpc-status UNIMPLEMENTED: the server does not offer grpc.health.v1.Health")
	case code == grpc.NotFound:
		return errors.New("grpc-status NOT_FOUND: the server does not know the health of this service")
	case code != grpc.OK:
		return fmt.Errorf("grpc-status %v", code)
	}
	return healthState(body)
}

// healthState returns an error unless the body is one HealthCheckResponse with the state SERVING.
func healthState(body []byte) error {
	malformed := errors.New("the answer is not one HealthCheckResponse")
	if len(body) < grpc.HeadSize || body[0] != 0 ||
		uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-grpc.HeadSize) {
		return malformed
	}
	state := uint64(0)
	for rest := body[grpc.HeadSize:]; len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 {
			return malformed
		}
		if number == healthField {
			if kind != protowire.VarintType {
				return malformed
			}
			_, _, tag := protowire.ConsumeTag(rest)
			state, _ = protowire.ConsumeVarint(rest[tag:]) // if there are several, the last counts
		}
		rest = rest[n:]
	}
	switch {
	case state == healthServing:
		return nil
	case state < uint64(len(healthNames)):
		return fmt.Errorf("the service is %s", healthNames[state])
	}
	return fmt.Errorf("the service is in state %d, which is not known", state)
}
