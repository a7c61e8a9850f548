package tlsio_test

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"plimsoll/internal/tlsio"
)

// sealer writes TLS 1.3 records as a client of TLS_AES_128_GCM_SHA256, including those that
// crypto/tls never sends.
type sealer struct {
	t      *testing.T
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func expand(t *testing.T, secret []byte, label string, n int) []byte {
	full := "tls13 " + label
	info := append(binary.BigEndian.AppendUint16(nil, uint16(n)), byte(len(full)))
	info = append(append(info, full...), 0)
	out, err := hkdf.Expand(sha256.New, secret, string(info), n)
	must(t, err)
	return out
}

func (s *sealer) use(secret []byte) {
	block, err := aes.NewCipher(expand(s.t, secret, "key", 16))
	must(s.t, err)
	s.aead, err = cipher.NewGCM(block)
	must(s.t, err)
	s.secret, s.iv, s.seq = secret, expand(s.t, secret, "iv", 12), 0
}

func (s *sealer) record(kind byte, data []byte) []byte {
	inner := append(bytes.Clone(data), kind)
	header := []byte{23, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(header[3:], uint16(len(inner)+16))
	nonce := bytes.Clone(s.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, s.seq) {
		nonce[4+i] ^= b
	}
	s.seq++
	return s.aead.Seal(header, nonce, inner, header)
}

// update is a KeyUpdate message; request asks for one in return.
func (s *sealer) update(request bool) []byte {
	message := []byte{24, 0, 0, 1, 0}
	if request {
		message[4] = 1
	}
	r := s.record(22, message)
	s.use(expand(s.t, s.secret, "traffic upd", 32))
	return r
}

// sealed is an established server connection and a sealer in the place of its client.
func sealed(t *testing.T) (*pair, *sealer) {
	s := newSite(t)
	var log bytes.Buffer
	client := s.client.Clone()
	client.KeyLogWriter = &log
	// The suite is the server's choice; this asks for the one that every crypto/tls on amd64 and
	// arm64 prefers.
	p := established(t, tlsio.NewLoop(), true, s.server, client)
	if suite := p.far.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Fatalf("the handshake chose %s", tls.CipherSuiteName(suite))
	}
	for lines := bufio.NewScanner(&log); lines.Scan(); {
		if f := strings.Fields(lines.Text()); f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(f[2])
			must(t, err)
			seal := &sealer{t: t}
			seal.use(secret)
			return p, seal
		}
	}
	t.Fatal("no secret in the key log")
	return nil, nil
}

func TestKeyUpdateIsAnsweredAndGoneThrough(t *testing.T) {
	tlsio.EachMode(t, func(t *testing.T) {
		p, seal := sealed(t)
		for _, request := range []bool{false, true, true} {
			p.sock.writes = 0
			var wire []byte
			wire = append(wire, seal.record(23, []byte("before "))...)
			wire = append(wire, seal.update(request)...)
			wire = append(wire, seal.record(23, []byte("after"))...)
			p.sock.rx.put(wire)
			got, err := readAll(p.conn, 100)
			if string(got) != "before after" || err != error(again) {
				t.Fatalf("%q, %v", got, err)
			}
			if want := map[bool]int{true: 1}[request]; p.sock.writes != want {
				t.Fatalf("%d answers, want %d", p.sock.writes, want)
			}
			// The ordinary client follows the server's new keys.
			must(t, p.conn.Write([]byte("reply")))
			reply := make([]byte, 5)
			if _, err := io.ReadFull(p.far, reply); string(reply) != "reply" {
				t.Fatalf("%q, %v", reply, err)
			}
		}
	})
}

func TestKeyUpdateSplitAtEveryByte(t *testing.T) {
	p, seal := sealed(t)
	wire := seal.update(true)
	for cut := range wire {
		p.sock.rx.put(wire[:cut])
		if _, err := readAll(p.conn, 100); err != error(again) {
			t.Fatal(err)
		}
		p.sock.rx.put(wire[cut:])
		if _, err := readAll(p.conn, 100); err != error(again) {
			t.Fatal(err)
		}
		p.sock.rx.put(seal.record(23, []byte("data")))
		if got, err := readAll(p.conn, 100); string(got) != "data" {
			t.Fatalf("cut at %d: %q, %v", cut, got, err)
		}
		wire = seal.update(true)
	}
}

func TestFloodOfKeyUpdatesEndsTheConnection(t *testing.T) {
	tlsio.EachMode(t, func(t *testing.T) {
		p, seal := sealed(t)
		p.sock.writes = 0
		for range 100 {
			// A byte of data between them resets crypto/tls's own count.
			p.sock.rx.put(seal.update(true))
			p.sock.rx.put(seal.record(23, []byte("x")))
			if _, err := readAll(p.conn, 100); err != error(again) {
				if err != tlsio.ErrKeyUpdates || p.sock.writes > 40 {
					t.Fatalf("%v after %d answers", err, p.sock.writes)
				}
				return
			}
		}
		t.Fatal("a hundred key updates for a hundred bytes were answered")
	})
}

func TestEmptyRecordsAreNotAnEndlessLoop(t *testing.T) {
	p, seal := sealed(t)
	for range 100 {
		p.sock.rx.put(seal.record(23, nil))
	}
	if _, err := readAll(p.conn, 100); err == error(again) {
		t.Fatal("a hundred empty records were ignored")
	}
}
