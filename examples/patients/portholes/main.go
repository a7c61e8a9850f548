// Command portholes is an nginx in front of the service that has the pictures which cameras take
// through portholes, and gzip_types has it compress these for each client, though a JPEG is
// compressed already and gets no smaller. Perf is allowed.
//
// Cured, gzip_types has no image/jpeg in it, so pictures are passed on as they are.
package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/work"
)

const (
	// A picture has about 50 KB.
	width, height, quality = 480, 320, 85
	// cameras are how many pictures there are.
	cameras = 16
	// finding is what it takes to find a picture, and to see whether the client may have it, in
	// tenths of a millisecond.
	finding = 2
)

func main() { front.Main(gallery) }

func gallery(cured bool) (*front.Site, error) {
	compressed := "text/css text/plain application/javascript application/json image/svg+xml"
	if !cured {
		compressed += " image/jpeg"
	}
	pictures := make([][]byte, cameras)
	for camera := range pictures {
		var err error
		if pictures[camera], err = take(camera); err != nil {
			return nil, err
		}
	}
	service := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       5 * time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Seal", work.Do(finding))
			w.Header().Set("Content-Type", "image/jpeg")
			w.Write(pictures[rand.IntN(cameras)])
		}),
	}
	return &front.Site{
		Service: service,
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, compressed, behind, listen)
		},
	}, nil
}

// take takes a picture: waves under a sky, with the noise of a small sensor.
func take(camera int) ([]byte, error) {
	noise := rand.New(rand.NewPCG(uint64(camera), 7))
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			wave := 40 * math.Sin(float64(x*y)/900+float64(camera))
			light := uint8(110 + wave + 12*noise.NormFloat64())
			picture.Set(x, y, color.RGBA{R: light / 2, G: light, B: 255 - light/3, A: 255})
		}
	}
	var out bytes.Buffer
	err := jpeg.Encode(&out, picture, &jpeg.Options{Quality: quality})
	return out.Bytes(), err
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    gzip on;
    gzip_proxied any;
    gzip_comp_level 6;
    gzip_types %s;
    upstream pictures { server %s; keepalive 128; keepalive_requests 1000000; }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass http://pictures;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffers 16 16k;
        }
    }
}
`
