// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"weir/cmd/weir/cli"
	"weir/internal/dscp"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/modules/cc"
	"weir/modules/class"
	"weir/modules/class/datagrams"
	"weir/modules/limit/scoped"
)

// classed is the class of a command with its counters.
type classed struct {
	Class string    `json:"class"`
	DSCP  dscp.DSCP `json:"dscp"`
	class.Counts
	Downloads *cc.Received      `json:"downloads,omitempty"` // nil without receiver-side control
	Datagrams *datagrams.Counts `json:"datagrams,omitempty"` // nil without a limit of UDP and QUIC
}

// mark marks packets of a cgroup until it is closed, which keeps the counters.
func (c *classed) mark(group string) (io.Closer, error) {
	marks, err := class.Mark(group, c.DSCP)
	return &counting{marks, c}, err
}

type counting struct {
	*class.Marked
	into *classed
}

func (c *counting) Close() (err error) {
	c.into.Counts, err = c.Counts()
	return errors.Join(err, c.Marked.Close())
}

// String describes the counters.
func (c *classed) String() string {
	text := fmt.Sprintf("class %s: sent %s in %s; %d marked with DSCP %d", c.Class, units.ByteSize(c.Octets), cli.Plural(int(c.Packets), "packet"), c.Marked, c.DSCP)
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d could not be marked", c.Failed)
	}
	if c.Downloads != nil {
		text += downloaded(*c.Downloads)
	}
	if d := c.Datagrams; d != nil && d.Octets > 0 {
		text += fmt.Sprintf("; datagrams: %s held, %d dropped", units.ByteSize(d.Octets), d.Dropped)
	}
	return text
}

// downloaded describes the counters of downloads; "" if there were none.
func downloaded(d cc.Received) (text string) {
	held := "; downloads of " + cli.Plural(int(d.Connections), "connection") + " held"
	switch {
	case d.Steps > 0:
		text = fmt.Sprintf("%s at %s and %v of queue on average, %s, %s by loss", held, units.ByteSize(d.Window()), d.Delay().Round(10*time.Microsecond),
			cli.Plural(int(d.Slowdowns), "slowdown"), cli.Plural(int(d.Reductions), "reduction"))
	case d.Connections > 0:
		text = held + ", on which nothing came"
	case d.NoTimestamps > 0:
		return fmt.Sprintf("; downloads of %s not held, for want of TCP's timestamps", cli.Plural(int(d.NoTimestamps), "connection"))
	}
	if d.NoTimestamps > 0 {
		text += fmt.Sprintf(", %d without timestamps not held", d.NoTimestamps)
	}
	return text
}

// classFlag returns the class of --class and its treatments; none without it.
func classFlag(a *cli.App, text string) (*classed, []scoped.Treatment, error) {
	if text == "" {
		return nil, nil, nil
	}
	codepoint, err := dscp.ParseDSCP(text)
	if err != nil {
		return nil, nil, fault.New(fault.Usage, "as in --class lbe", "--class: %w", err)
	}
	given := &classed{Class: text, DSCP: codepoint}
	all := []scoped.Treatment{given.mark}
	if codepoint == dscp.LowEffort || codepoint == dscp.Scavenger {
		all = append(all, func(group string) (io.Closer, error) { return scavenge(a, group) }, func(group string) (io.Closer, error) { return scavengeDownloads(a, group, given) },
			func(group string) (io.Closer, error) { return scavengeDatagrams(a, group, given) })
	}
	return given, all, nil
}

// scavenge sets the scavenger as congestion control of a cgroup. Without it the command is still
// marked for routers with classes.
func scavenge(a *cli.App, group string) (io.Closer, error) {
	installed, err := installScavenger()
	if err == nil {
		if err = installed.Attach(group); err == nil {
			return installed, nil
		}
		_ = installed.Close()
	}
	if fault.Of(err) == fault.Permission {
		return nil, err
	}
	a.Say("%s", keepsControl(err))
	return nothing{}, nil
}

// scavengeDownloads enables receiver-side control for a cgroup. Without it the senders determine
// the rate.
func scavengeDownloads(a *cli.App, group string, into *classed) (io.Closer, error) {
	held, err := into.hold(group)
	if err == nil {
		return held, nil
	}
	if fault.Of(err) == fault.Permission {
		return nil, err
	}
	a.Say("%s", keepsWindow(err))
	return nothing{}, nil
}

// hold holds the downloads of a cgroup until it is closed, which keeps the counts.
func (c *classed) hold(group string) (io.Closer, error) {
	held, err := cc.Receive(group, "scavenger")
	if err != nil {
		return nil, err
	}
	return &holding{held, c}, nil
}

// scavengeDatagrams holds UDP and QUIC of a cgroup. Without it they are only marked.
func scavengeDatagrams(a *cli.App, group string, into *classed) (io.Closer, error) {
	held, err := into.holdDatagrams(group)
	if err == nil {
		if err := held.Unmeasured(); err != nil {
			a.Say("%s", slowDatagrams(err))
		}
		return held, nil
	}
	if fault.Of(err) == fault.Permission {
		return nil, err
	}
	a.Say("%s", keepsDatagrams(err))
	return nothing{}, nil
}

// holdDatagrams holds the datagrams of a cgroup until it is closed, which keeps the counts.
func (c *classed) holdDatagrams(group string) (*holdingDatagrams, error) {
	held, err := datagrams.Hold(group, c.DSCP)
	if err != nil {
		return nil, err
	}
	return &holdingDatagrams{held, c}, nil
}

type holdingDatagrams struct {
	*datagrams.Held
	into *classed
}

func (h *holdingDatagrams) Close() error {
	return errors.Join(h.into.countedDatagrams(h.Held), h.Held.Close())
}

// countedDatagrams stores the counters of datagrams.
func (c *classed) countedDatagrams(held *datagrams.Held) error {
	counts, err := held.Counts()
	c.Datagrams = &counts
	return err
}

// slowDatagrams describes datagrams without measured round trips.
func slowDatagrams(err error) string {
	return fmt.Sprintf("its UDP and QUIC have %s: %v", units.BitRate(8*datagrams.Unmeasured), err)
}

// keepsDatagrams describes datagrams without a limit.
func keepsDatagrams(err error) string {
	return fmt.Sprintf("its UDP and QUIC are marked, and compete for links without classes: %v", err)
}

type holding struct {
	*cc.Receiver
	into *classed
}

func (h *holding) Close() error {
	return errors.Join(h.into.counted(h.Receiver), h.Receiver.Close())
}

// counted stores the counters of downloads.
func (c *classed) counted(held *cc.Receiver) error {
	counts, err := held.Counts()
	c.Downloads = &counts
	return err
}

// keepsWindow describes downloads without receiver-side control.
func keepsWindow(err error) string {
	return fmt.Sprintf("its downloads compete by the congestion control of their senders: %v", err)
}

func installScavenger() (*cc.Installed, error) {
	return cc.Install("scavenger", cc.Options{Name: fmt.Sprintf("weir_lbe%d", os.Getpid())})
}

// keepsControl describes a command without the scavenger.
func keepsControl(err error) string {
	return fmt.Sprintf("its TCP connections keep the host's congestion control, which takes a full share of links without classes: %v", err)
}

type nothing struct{}

func (nothing) Close() error { return nil }
