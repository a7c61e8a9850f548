package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	orcareport "github.com/cncf/xds/go/xds/data/orca/v3"
	orcaservice "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	interoppb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
)

// grpcService is a server of grpc-go with the services of its interop tests and grpc.health.v1.
type grpcService struct {
	*grpc.Server
	health  *health.Server
	address string
}

// newGRPC starts a server on loopback, with TLS where there is a certificate. It ends with the
// test.
func newGRPC(t *testing.T, certificate *tls.Certificate, o ...grpc.ServerOption) *grpcService {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if certificate != nil {
		o = append(o, grpc.Creds(credentials.NewServerTLSFromCert(certificate)))
	}
	o = append(o, orca.CallMetricsServerOption(nil))
	s := &grpcService{Server: grpc.NewServer(o...), health: health.NewServer(), address: l.Addr().String()}
	metrics := orca.NewServerMetricsRecorder()
	interoppb.RegisterTestServiceServer(s.Server, interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: metrics}))
	orcaservice.RegisterOpenRcaServiceServer(s.Server, &orcaReports{metrics: metrics})
	grpc_health_v1.RegisterHealthServer(s.Server, s.health)
	done := make(chan struct{})
	go func() { _ = s.Serve(l); close(done) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return s
}

// orcaReports sends what the server has measured of itself every tenth of a second. That of grpc-go
// does so twice a minute at the most.
type orcaReports struct {
	orcaservice.UnimplementedOpenRcaServiceServer
	metrics orca.ServerMetricsRecorder
}

func (r *orcaReports) StreamCoreMetrics(
	_ *orcaservice.OrcaLoadReportRequest, stream orcaservice.OpenRcaService_StreamCoreMetricsServer,
) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		m := r.metrics.(orca.ServerMetricsProvider).ServerMetrics()
		err := stream.Send(&orcareport.OrcaLoadReport{
			CpuUtilization: m.CPUUtilization, MemUtilization: m.MemUtilization, Utilization: m.Utilization,
		})
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// grpcDial makes a channel, over TLS where there are roots.
func grpcDial(t *testing.T, address string, roots *x509.CertPool, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if roots != nil {
		creds = credentials.NewTLS(&tls.Config{RootCAs: roots})
	}
	c, err := grpc.NewClient("passthrough:///"+address, append(o, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// interopFailed is what an interop case has objected to. Its functions say so by logging something
// fatal, from any goroutine, which would end the process.
var interopFailed struct {
	sync.Mutex
	text []string
}

// interopLogger ends the goroutine that logs something fatal, and takes down what it was. All else
// is dropped.
type interopLogger struct{}

func init() { grpclog.SetLoggerV2(interopLogger{}) }

func (interopLogger) Info(...any)             {}
func (interopLogger) Infoln(...any)           {}
func (interopLogger) Infof(string, ...any)    {}
func (interopLogger) Warning(...any)          {}
func (interopLogger) Warningln(...any)        {}
func (interopLogger) Warningf(string, ...any) {}
func (interopLogger) Error(...any)            {}
func (interopLogger) Errorln(...any)          {}
func (interopLogger) Errorf(string, ...any)   {}
func (interopLogger) V(int) bool              { return false }

func (interopLogger) Fatal(args ...any) {
	interopFailed.Lock()
	interopFailed.text = append(interopFailed.text, fmt.Sprint(args...))
	interopFailed.Unlock()
	runtime.Goexit()
}

func (l interopLogger) Fatalln(args ...any)               { l.Fatal(args...) }
func (l interopLogger) Fatalf(format string, args ...any) { l.Fatal(fmt.Sprintf(format, args...)) }

// interopCase runs one case, and fails the test with what it objects to.
func interopCase(t *testing.T, run func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	<-done
	interopFailed.Lock()
	defer interopFailed.Unlock()
	if len(interopFailed.text) > 0 {
		t.Error(strings.Join(interopFailed.text, "\n"))
		interopFailed.text = nil
	}
}
