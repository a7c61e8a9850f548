package config

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"
)

// commentsJSON has the doc comments of the types*.go: by type, and by type and field as "Type.Field".
// go test ./internal/config -update writes it. It is a file, because a parser of Go's sources and the
// sources themselves would take a hundredth of the binary.
//
//go:embed comments.json
var commentsJSON []byte

// comments are those of commentsJSON.
var comments = sync.OnceValue(func() (found map[string]string) {
	if err := json.Unmarshal(commentsJSON, &found); err != nil {
		panic("config: comments.json: " + err.Error())
	}
	return found
})

// doc is the comment of a key with its Go name in front replaced by the key.
func (k *key) doc(owner string) string {
	text := comments()[owner+"."+k.goName]
	if rest, found := strings.CutPrefix(text, k.goName+" "); found {
		return k.name + " " + rest
	}
	if rest, found := strings.CutPrefix(text, k.goName+":"); found {
		return k.name + ":" + rest
	}
	return text
}
