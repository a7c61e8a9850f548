package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options are how the terminal is shown.
type Options struct {
	In     io.Reader
	Out    io.Writer
	Colour bool
	// Width and Height are the terminal's; without a width it is asked.
	Width, Height int
}

// Run shows figures in a terminal until the user quits or ctx ends. The first look must succeed: an
// address that is wrong is an error, and one that goes away later is shown as such.
func Run(ctx context.Context, w *Watcher, o Options) error {
	asked := w.interval
	w.interval = min(asked, time.Second) // nobody looks at nothing for long
	first, err := w.Next(ctx)
	w.interval = asked
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := &program{ctx: ctx, watcher: w, figures: first, screen: screen{colour: o.Colour}}
	with := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithoutSignalHandler()}
	if o.Width > 0 {
		with = append(with, tea.WithWindowSize(o.Width, o.Height))
	}
	_, err = tea.NewProgram(p, with...).Run()
	if err == nil || ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return fmt.Errorf("the terminal cannot be shown: %w (plimsoll top --once prints one look)", err)
}

// program is what the terminal library drives. One look is under way at any time.
type program struct {
	ctx     context.Context
	watcher *Watcher
	figures *Figures
	screen  screen
	paused  bool
	failed  error // of the last look
}

// looked is the outcome of a look.
type looked struct {
	figures *Figures
	err     error
}

// again says that the time has come to look again after a failure.
type again struct{}

func (p *program) look() tea.Msg {
	f, err := p.watcher.Next(p.ctx)
	return looked{f, err}
}

// Init is for the terminal library.
func (p *program) Init() tea.Cmd { return p.look }

// Update is for the terminal library.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case looked:
		p.failed = msg.err
		if msg.err != nil {
			wait := max(p.watcher.interval, time.Second)
			return p, tea.Tick(wait, func(time.Time) tea.Msg { return again{} })
		}
		if !p.paused {
			p.figures = msg.figures
		}
		return p, p.look
	case again:
		return p, p.look
	case tea.WindowSizeMsg:
		p.screen.width, p.screen.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return p, p.key(msg.String())
	}
	return p, nil
}

func (p *program) key(name string) tea.Cmd {
	s := &p.screen
	all, room := rows(p.figures, p.shown())
	switch name {
	case "q", "ctrl+c":
		return tea.Quit
	case "s":
		s.order = (s.order + 1) % orders
		s.scroll = 0
	case "p":
		p.paused = !p.paused
	case "?":
		s.help, s.scroll = !s.help, 0
	case "esc":
		s.help, s.scroll = false, 0
	case "up", "k":
		s.scroll--
	case "down", "j":
		s.scroll++
	case "pgup":
		s.scroll -= room
	case "pgdown":
		s.scroll += room
	case "home":
		s.scroll = 0
	case "end":
		s.scroll = all
	}
	s.scroll = max(0, min(s.scroll, all-room))
	return nil
}

// shown is the screen with its footer.
func (p *program) shown() screen {
	s := p.screen
	if p.failed != nil {
		s.footer = append(s.footer, trouble(p.failed, p.figures.Taken, time.Now()))
	}
	s.footer = append(s.footer, status(s, p.paused))
	return s
}

// View is for the terminal library.
func (p *program) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	if p.screen.width > 0 && p.screen.height > 0 {
		v.Content = strings.Join(lines(p.figures, p.shown()), "\n")
	}
	return v
}
