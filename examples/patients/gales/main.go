// Command gales tells a ship of the gales on her way. It asks the weather office by gRPC, over one
// connection, as is usual; but since the scare about HTTP/2 the office lets a connection have four
// streams at once. The others wait in the client for one to end, and nothing is busy. Only pprof is
// shown.
//
// Cured, a connection may have 256 streams at once.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	few, many = 4, 256 // streams of a connection
	areas     = 28
	takes     = 8 * time.Millisecond // until the office has read its instruments
	patience  = 10 * time.Second
	// role is the environment variable that makes the program the weather office; its value is how
	// many streams a connection may have.
	role   = "PATIENT_STREAMS"
	method = "Warning"
	name   = "weather.Office"
)

var forces = []string{"none", "7", "8", "9", "10, perhaps 11 later"}

// warning answers a client that wants to know of the gales in an area.
func warning(
	_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor,
) (any, error) {
	var area wrapperspb.UInt32Value
	if err := read(&area); err != nil {
		return nil, err
	}
	time.Sleep(takes)
	force := forces[int(area.Value)%len(forces)]
	return wrapperspb.String(fmt.Sprint("area ", area.Value, ": ", force)), nil
}

// serve is the weather office. It prints where it listens, and serves until its input ends.
func serve(streams string) error {
	limit, err := strconv.ParseUint(streams, 10, 32)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxConcurrentStreams(uint32(limit)))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: name,
		Methods:     []grpc.MethodDesc{{MethodName: method, Handler: warning}},
	}, nil)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Println(l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	server.Stop()
	return errors.Join(err, <-ended)
}

// start starts the weather office, which ends with the patient, and returns where it is.
func start(p *ward.Patient, streams int) (address string, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	child := exec.Command(program)
	child.Env = append(os.Environ(), fmt.Sprint(role, "=", streams))
	child.Stderr = os.Stderr
	in, inErr := child.StdinPipe()
	out, outErr := child.StdoutPipe()
	if err := errors.Join(inErr, outErr, child.Start()); err != nil {
		return "", fmt.Errorf("start the weather office: %w", err)
	}
	p.OnEnd(func() {
		in.Close()
		child.Wait()
	})
	address, err = bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(address), err
}

// office is how the weather office is asked.
type office struct{ connection *grpc.ClientConn }

func (o *office) warning(ctx context.Context, area uint32) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answer wrapperspb.StringValue
	err := o.connection.Invoke(ctx, "/"+name+"/"+method, wrapperspb.UInt32(area), &answer)
	return answer.Value, err
}

func open(p *ward.Patient) (http.Handler, error) {
	streams := few
	if p.Cured {
		streams = many
	}
	address, err := start(p, streams)
	if err != nil {
		return nil, err
	}
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("the weather office: %w", err)
	}
	p.OnEnd(func() { c.Close() })
	o := &office{connection: c}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told, err := o.warning(r.Context(), rand.Uint32N(areas))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, told, work.Do(3))
	}), nil
}

func main() {
	streams, isOffice := os.LookupEnv(role)
	if !isOffice {
		ward.Main(open)
	} else if err := serve(streams); err != nil {
		fmt.Fprintln(os.Stderr, "weather office:", err)
		os.Exit(2)
	}
}
