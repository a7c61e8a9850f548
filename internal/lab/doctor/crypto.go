package doctor

import (
	"context"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/lab/format"
)

// wanted are the instructions that make TLS cheap, by their names in /proc/cpuinfo, on amd64 and on
// arm64.
var (
	wanted = []string{
		"aes", "pclmulqdq", "sha_ni", "avx2", "vaes", "vpclmulqdq", "adx", "bmi2", "pmull", "sha2",
	}
	required = [][2]string{{"aes", "aes"}, {"pclmulqdq", "pmull"}} // on amd64, on arm64
)

func readInstructions(s *subject) ([]string, error) {
	text, err := s.text("proc/cpuinfo")
	if err != nil {
		return nil, err
	}
	flags := field(text, "flags")
	if flags == "" {
		flags = field(text, "Features")
	}
	if flags == "" {
		return nil, fmt.Errorf("the kernel does not list this processor's instructions")
	}
	has := strings.Fields(flags)
	return slices.DeleteFunc(slices.Clone(wanted), func(f string) bool {
		return !slices.Contains(has, f)
	}), nil
}

func judgeInstructions(s *subject, has []string) opinion {
	o := opinion{value: strings.Join(has, " "), why: "AES-GCM is done by instructions of its own"}
	if len(has) == 0 {
		o.value = "none"
	}
	for _, n := range required {
		if !slices.Contains(has, n[0]) && !slices.Contains(has, n[1]) {
			o.advise = true
			o.recommended = "a processor, or a type of virtual machine, " +
				"that has aes and pclmulqdq (pmull)"
			o.why = "without " + n[0] + " AES-GCM takes ten times as long. " +
				"Go then offers ChaCha20-Poly1305 first by itself; " +
				"a hypervisor may hide instructions that the processor has"
			o.command = "# with QEMU: -cpu host; libvirt: <cpu mode='host-passthrough'/>"
		}
	}
	return o
}

// speeds are measured on one core of this machine.
type speeds struct {
	encrypted          float64 // bytes
	ecdsaCost, rsaCost float64 // seconds of the server's part of a full TLS 1.3 handshake
}

func readSpeeds(s *subject) (speeds, error) { return s.speeds, s.speedErr }

// measureSpeeds measures for the given time in all, plus the time for making the keys.
func measureSpeeds(ctx context.Context, budget time.Duration) (v speeds, err error) {
	if v.encrypted, err = measureEncryption(ctx, budget/5); err != nil {
		return v, err
	}
	small, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return v, err
	}
	if v.ecdsaCost, err = measureHandshakes(ctx, budget*2/5, small); err != nil {
		return v, err
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return v, err
	}
	v.rsaCost, err = measureHandshakes(ctx, budget*2/5, large)
	return v, err
}

// measureEncryption seals records of the size used in TLS.
func measureEncryption(ctx context.Context, budget time.Duration) (bytes float64, err error) {
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		return 0, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return 0, err
	}
	record, nonce := make([]byte, 16<<10, 17<<10), make([]byte, gcm.NonceSize())
	began := time.Now()
	for n := 1; ; n++ {
		gcm.Seal(record[:0], nonce, record, nil)
		if took := time.Since(began); took >= budget {
			return float64(n*len(record)) / took.Seconds(), ctx.Err()
		}
	}
}

// handshakePatience is the limit for a handshake in memory. A longer one means that something is
// wrong.
const handshakePatience = 10 * time.Second

// measureHandshakes returns the median cost of full handshakes to the server, without its waiting
// for the client.
func measureHandshakes(
	ctx context.Context, budget time.Duration, key crypto.Signer,
) (seconds float64, err error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{"doctor"},
		NotAfter:     time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return 0, err
	}
	server := &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		SessionTicketsDisabled: true,
	}
	// only the server's cost counts
	client := &tls.Config{ServerName: "doctor", InsecureSkipVerify: true}
	var costs []time.Duration
	for began := time.Now(); len(costs) == 0 || time.Since(began) < budget; {
		cost, err := handshake(server, client)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
		costs = append(costs, cost)
	}
	slices.Sort(costs)
	return costs[len(costs)/2].Seconds(), nil
}

func handshake(server, client *tls.Config) (cost time.Duration, err error) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	deadline := time.Now().Add(handshakePatience)
	near.SetDeadline(deadline)
	far.SetDeadline(deadline)
	ended := make(chan error, 1)
	go func() { ended <- tls.Client(far, client).Handshake() }()
	waits := &waitingConn{Conn: near}
	began := time.Now()
	err = tls.Server(waits, server).Handshake()
	cost = time.Since(began) - waits.waited
	if err != nil {
		near.Close() // or the client would wait for its deadline
	}
	if failed := <-ended; err == nil {
		err = failed
	}
	return cost, err
}

// waitingConn counts the time of its reads and writes. Over a pipe, that is the other end's time.
type waitingConn struct {
	net.Conn
	waited time.Duration
}

func (c *waitingConn) Read(b []byte) (int, error) {
	began := time.Now()
	n, err := c.Conn.Read(b)
	c.waited += time.Since(began)
	return n, err
}

func (c *waitingConn) Write(b []byte) (int, error) {
	began := time.Now()
	n, err := c.Conn.Write(b)
	c.waited += time.Since(began)
	return n, err
}

// slowEncryption is the most that a core without AES instructions does, in bytes per second.
const slowEncryption = 300e6

func judgeEncryption(s *subject, v speeds) opinion {
	o := opinion{
		value: format.Bytes(v.encrypted) + " a second and core",
		why: "as Go's crypto does it, by records of 16 kB; encrypting answers is no " +
			"bottleneck then",
	}
	if v.encrypted < slowEncryption {
		o.advise = true
		o.recommended = "over 1 GB a second, as processors with instructions for AES do"
		o.why = "encrypting alone bounds a core to this, whatever else it does"
		o.command = "# see the crypto instructions above; if they are there, something else used " +
			"the processor while this was measured: look again"
	}
	return o
}

func judgeHandshakesECDSA(s *subject, v speeds) opinion {
	return opinion{
		value: perCore(v.ecdsaCost),
		why: "the server's part of a full handshake of TLS 1.3; one that resumes a session " +
			"costs about half",
	}
}

func judgeHandshakesRSA(s *subject, v speeds) opinion {
	o := opinion{value: perCore(v.rsaCost), why: "the same with an RSA certificate"}
	if v.ecdsaCost > 0 {
		o.why = fmt.Sprintf("the same with an RSA certificate, which costs %.1f times as much",
			v.rsaCost/v.ecdsaCost)
	}
	return o
}

func perCore(cost float64) string {
	if cost <= 0 {
		return "?"
	}
	return fmt.Sprintf("%s a second and core (%s each)",
		strings.TrimSuffix(format.Rate(1/cost), "/s"), format.Duration(cost*1e9))
}
