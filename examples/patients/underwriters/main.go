// Command underwriters says what it costs to insure a cargo. It asks the rating office by gRPC
// over TLS, and makes a client for each question, which it closes when it has the answer: so each
// request begins with a connection, a TLS handshake and the settings of HTTP/2. Nothing is shown.
//
// Cured, all requests share one client, and it keeps its connection.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"plimsoll/examples/patients/selfsigned"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	goods    = 400
	patience = 10 * time.Second
	// role is the environment variable that makes the program the rating office.
	role   = "PATIENT_OFFICE"
	method = "Rate"
	name   = "rating.Office"
)

// rate answers a client that asks for the rate of a kind of goods, in hundredths of a percent.
func rate(
	_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor,
) (any, error) {
	var kind wrapperspb.UInt32Value
	if err := read(&kind); err != nil {
		return nil, err
	}
	return wrapperspb.UInt32(20 + kind.Value*kind.Value%90), nil
}

// serve is the rating office. It prints where it listens and what its certificate is, and serves
// until its input ends.
func serve() error {
	certificate, err := selfsigned.ECDSA()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: name,
		Methods:     []grpc.MethodDesc{{MethodName: method, Handler: rate}},
	}, nil)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Println(l.Addr(), base64.StdEncoding.EncodeToString(certificate.Leaf.Raw))
	_, err = io.Copy(io.Discard, os.Stdin)
	server.Stop()
	return errors.Join(err, <-ended)
}

// office is how the rating office is asked. Any goroutine may ask.
type office struct {
	address  string
	security credentials.TransportCredentials
	shared   *grpc.ClientConn // nil where each question has a client of its own
}

// start starts the rating office, which ends with the patient.
func start(p *ward.Patient) (*office, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(program)
	child.Env = append(os.Environ(), role+"=1")
	child.Stderr = os.Stderr
	in, inErr := child.StdinPipe()
	out, outErr := child.StdoutPipe()
	if err := errors.Join(inErr, outErr, child.Start()); err != nil {
		return nil, fmt.Errorf("start the rating office: %w", err)
	}
	p.OnEnd(func() {
		in.Close()
		child.Wait()
	})
	var address, text string
	if _, err := fmt.Fscanln(bufio.NewReader(out), &address, &text); err != nil {
		return nil, fmt.Errorf("the rating office does not say where it is: %w", err)
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	trusted := selfsigned.Trust(tls.Certificate{Leaf: certificate})
	return &office{address: address, security: credentials.NewClientTLSFromCert(trusted, "")}, nil
}

func (o *office) client() (*grpc.ClientConn, error) {
	return grpc.NewClient(o.address, grpc.WithTransportCredentials(o.security))
}

// rate asks for the rate of a kind of goods.
func (o *office) rate(ctx context.Context, kind uint32) (uint32, error) {
	client := o.shared
	if client == nil {
		own, err := o.client()
		if err != nil {
			return 0, err
		}
		defer own.Close()
		client = own
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answer wrapperspb.UInt32Value
	err := client.Invoke(ctx, "/"+name+"/"+method, wrapperspb.UInt32(kind), &answer)
	return answer.Value, err
}

func open(p *ward.Patient) (http.Handler, error) {
	o, err := start(p)
	if err != nil {
		return nil, err
	}
	if p.Cured {
		if o.shared, err = o.client(); err != nil {
			return nil, fmt.Errorf("the rating office: %w", err)
		}
		p.OnEnd(func() { o.shared.Close() })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, worth := rand.Uint32N(goods), 1000+rand.Uint32N(50_000)
		rate, err := o.rate(r.Context(), kind)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, "goods %d worth %d: %.2f %s\n",
			kind, worth, float64(worth)*float64(rate)/10_000, work.Do(3))
	}), nil
}

func main() {
	if _, isOffice := os.LookupEnv(role); !isOffice {
		ward.Main(open)
	} else if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "rating office:", err)
		os.Exit(2)
	}
}
