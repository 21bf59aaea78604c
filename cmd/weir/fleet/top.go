// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/texttable"
	"weir/modules/fleet/lead"
)

func newTopCommand(a *cli.App) *cobra.Command {
	var c client
	interval := time.Second
	command := &cobra.Command{
		Use:   "top",
		Short: "Watch the shared limits and the hosts of a fleet",
		Long: `Watch the shared limits and the hosts of a fleet: the tables of 'weir fleet status',
read again in each interval. Arrows scroll, p pauses, q quits. While no leader answers, it
shows the last tables and the reason.

If standard output is no terminal, use 'weir fleet status'.`,
		Example: "  weir fleet top\n  weir fleet top --interval 250ms --server 10.0.0.1:4222",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond || interval > time.Hour {
				return fault.New(fault.Usage, "write --interval 1s", "--interval %s is outside 100ms to 1h", interval)
			}
			screen, is := a.Stdout.(*os.File)
			if !is || !term.IsTerminal(int(screen.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) || a.Format == "json" {
				return fault.New(fault.Usage, "use 'weir fleet status'", "'weir fleet top' draws on a terminal only")
			}
			return watch(command.Context(), screen, a.Style(), c, interval)
		},
	}
	c.flags(command)
	command.Flags().DurationVar(&interval, "interval", interval, "interval between two readings")
	return command
}

// watch draws on the terminal until q, ctrl-C or the end of ctx. An error of the first reading ends
// it.
func watch(ctx context.Context, screen *os.File, style texttable.Style, c client, interval time.Duration) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	v := &topView{interval: interval, body: viewport.New(), style: style, width: 80, height: 24, ask: func() (r lead.Response, err error) {
		if err = conn.Ask(lead.Request{Op: lead.OpStatus}, &r); err == nil {
			err = r.Err()
		}
		return r, err
	}}
	_, err = tea.NewProgram(v, tea.WithContext(ctx), tea.WithInput(os.Stdin), tea.WithOutput(screen), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		err = nil
	}
	if v.read.IsZero() {
		err = errors.Join(v.err, err)
	}
	return err
}

// topView is the live view: a head, and below it the scrolling tables of the last answer.
type topView struct {
	ask           func() (lead.Response, error)
	interval      time.Duration
	style         texttable.Style
	body          viewport.Model
	width, height int
	read          time.Time // of the last answer
	err           error     // of the last reading
	paused        bool
}

// answer is one reading; tick requests the next one.
type (
	answer struct {
		response lead.Response
		at       time.Time
		err      error
	}
	tick struct{}
)

func (v *topView) readLeader() tea.Msg {
	r, err := v.ask()
	if err == nil && r.Status == nil {
		err = errors.New("the leader answers without a status")
	}
	return answer{r, time.Now(), err}
}

// Init asks for the first time.
func (v *topView) Init() tea.Cmd { return v.readLeader }

// Update handles an answer, a tick, a key or a new size of the terminal.
func (v *topView) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case answer:
		v.err = m.err
		if m.err != nil && v.read.IsZero() {
			return v, tea.Quit
		}
		if m.err == nil && !v.paused {
			v.fill(m)
		}
		return v, tea.Tick(v.interval, func(time.Time) tea.Msg { return tick{} })
	case tick:
		return v, v.readLeader
	case tea.WindowSizeMsg:
		if m.Width > 0 && m.Height > 0 { // 0 on serial lines and terminals of containers
			v.width, v.height, v.style.Width = m.Width, m.Height, m.Width
		}
		v.body.SetWidth(v.width)
		v.body.SetHeight(max(v.height-2, 1))
	case tea.KeyPressMsg:
		return v, v.typed(m)
	}
	return v, nil
}

func (v *topView) typed(m tea.KeyPressMsg) (command tea.Cmd) {
	switch m.String() {
	case "q", "Q", "ctrl+c":
		return tea.Quit
	case "p":
		v.paused = !v.paused
	default: // arrows, pgup, pgdown
		v.body, command = v.body.Update(m)
	}
	return command
}

// fill sets the tables.
func (v *topView) fill(m answer) {
	v.read = m.at
	var text strings.Builder
	_ = show(&text, v.style, m.response) // a strings.Builder accepts all
	v.body.SetContent(text.String())
}

// View returns the whole screen.
func (v *topView) View() tea.View {
	head := "weir fleet top  " + v.read.Format(time.TimeOnly) + ", every " + v.interval.String()
	if v.paused {
		head += ", paused"
	}
	head += "  (q quits, p pauses, arrows scroll)"
	if v.err != nil {
		head += "  NO ANSWER: " + v.err.Error()
	}
	if runes := []rune(head); len(runes) > v.width {
		head = string(runes[:v.width])
	}
	screen := tea.NewView(head + "\n\n" + v.body.View())
	screen.AltScreen = true
	return screen
}
