// Command telegraphs seals messages between ships with AES-GCM. The key comes from a passphrase in
// the settings by PBKDF2, and it is derived once more for each message, though neither the
// passphrase nor the salt ever changes. Only pprof is shown.
//
// Cured, the key is derived when the service starts.
package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	ships    = 2000
	orders   = 30 // in a message
	keyBytes = 32

	// rounds make a stolen passphrase costly to guess.
	rounds = 8192
)

// settings are what the owner has written down for his telegraph.
type settings struct {
	Passphrase string
	Salt       []byte
}

// telegraph seals messages. Any goroutine may use it.
type telegraph struct {
	settings settings
	kept     cipher.AEAD // nil is to make one from the settings for each message
}

// message is what one ship has to tell another.
type message struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Stamp  string  `json:"stamp"`
	Orders []order `json:"orders"`
}

type order struct {
	Engine string `json:"engine"`
	Speed  string `json:"speed"`
	Turns  int    `json:"turns"`
}

var (
	engines = []string{"port", "starboard"}
	speeds  = []string{"stop", "dead slow", "slow", "half", "full"}
)

// sealer is what seals a message.
func (t *telegraph) sealer() (cipher.AEAD, error) {
	if t.kept != nil {
		return t.kept, nil
	}
	return t.settings.sealer()
}

// sealer derives the key.
func (s settings) sealer() (cipher.AEAD, error) {
	key, err := pbkdf2.Key(sha256.New, s.Passphrase, s.Salt, rounds, keyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal returns a message that only who knows the passphrase can read.
func (t *telegraph) seal(m *message) (string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	sealer, err := t.sealer()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, sealer.NonceSize(), sealer.NonceSize()+len(text)+sealer.Overhead())
	crand.Read(nonce)
	return base64.StdEncoding.EncodeToString(sealer.Seal(nonce, nonce, text, []byte(m.To))), nil
}

// write makes a message from one ship to another.
func write() *message {
	m := &message{
		From:  fmt.Sprint("ship ", rand.IntN(ships)),
		To:    fmt.Sprint("ship ", rand.IntN(ships)),
		Stamp: work.Do(3),
	}
	for i := range orders {
		m.Orders = append(m.Orders, order{
			Engine: engines[i%len(engines)],
			Speed:  speeds[rand.IntN(len(speeds))],
			Turns:  20 + rand.IntN(100),
		})
	}
	return m
}

func (t *telegraph) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m := write()
	sealed, err := t.seal(m)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "To: %s\nFrom: %s\n\n%s\n", m.To, m.From, sealed)
}

func open(p *ward.Patient) (http.Handler, error) {
	t := &telegraph{settings: settings{
		Passphrase: "full ahead, and mind the pilot's ladder",
		Salt:       []byte("telegraphs of the harbour"),
	}}
	if p.Cured {
		var err error
		if t.kept, err = t.settings.sealer(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func main() { ward.Main(open) }
