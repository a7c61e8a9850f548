// Command coastlines serves the tiles of a sea chart as PNG. The chart has 48 colours, but a tile
// is cut from it by a type that is an image.Image and no more. So the encoder asks it for one
// pixel after the other by an interface, does not see the palette, and filters and compresses six
// bytes for each pixel; only pprof is shown.
//
// Cured, a tile is a SubImage of the chart, which is still an *image.Paletted.
package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	side    = 1024 // pixels of the chart
	tile    = 224  // pixels of a tile
	colours = 48
)

// window shows a part of a chart.
type window struct {
	chart image.Image
	frame image.Rectangle
}

func (w *window) ColorModel() color.Model { return w.chart.ColorModel() }
func (w *window) Bounds() image.Rectangle { return w.frame }
func (w *window) At(x, y int) color.Color { return w.chart.At(x, y) }

// buffers keeps what the encoder works with.
type buffers struct{ sync.Pool }

func (b *buffers) Get() *png.EncoderBuffer {
	kept, _ := b.Pool.Get().(*png.EncoderBuffer)
	return kept
}

func (b *buffers) Put(used *png.EncoderBuffer) { b.Pool.Put(used) }

// atlas cuts tiles from its chart. Any goroutine may use it.
type atlas struct {
	chart   *image.Paletted
	encoder png.Encoder
	cured   bool
}

// drawn is a chart of a sea with islands, the deeper the darker.
func drawn() *image.Paletted {
	palette := make(color.Palette, colours)
	for i := range palette {
		palette[i] = color.RGBA{R: uint8(5 * i), G: uint8(90 + 3*i), B: uint8(250 - 4*i), A: 255}
	}
	chart := image.NewPaletted(image.Rect(0, 0, side, side), palette)
	for y := range side {
		for x := range side {
			east, north := float64(x)/70, float64(y)/90
			height := math.Sin(east)*math.Cos(north) + math.Sin(3*east+north)/3 + math.Cos(5*north)/6
			chart.SetColorIndex(x, y, uint8((height+1.5)/3*(colours-1)))
		}
	}
	return chart
}

// cut is the part of the chart within a frame.
func (a *atlas) cut(frame image.Rectangle) image.Image {
	if a.cured {
		return a.chart.SubImage(frame)
	}
	return &window{chart: a.chart, frame: frame}
}

func (a *atlas) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	at := image.Pt(rand.IntN(side-tile), rand.IntN(side-tile))
	frame := image.Rectangle{Min: at, Max: at.Add(image.Pt(tile, tile))}
	var picture bytes.Buffer
	if err := a.encoder.Encode(&picture, a.cut(frame)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Content-Length", strconv.Itoa(picture.Len()))
	w.Header().Set("ETag", strconv.Quote(work.Do(5)))
	w.Write(picture.Bytes())
}

func open(p *ward.Patient) (http.Handler, error) {
	return &atlas{
		chart:   drawn(),
		encoder: png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: &buffers{}},
		cured:   p.Cured,
	}, nil
}

func main() { ward.Main(open) }
