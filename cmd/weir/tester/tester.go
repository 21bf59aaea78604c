// SPDX-License-Identifier: Apache-2.0

// Package tester is the command group weir tester, which generates and analyzes frames.
package tester

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/tester/session"
	"weir/tester/spec"
)

// Command returns the command weir tester.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "tester",
		Short: "Send frames, check every received frame, benchmark devices by RFC 2544",
		Long: `Send frames, check every received frame, benchmark devices by RFC 2544.

Every stamped frame carries a sequence number and a time. The receiver counts the
lost, duplicated, reordered and damaged frames of each stream exactly, and measures
the delay of each frame.

Only the devices that you name are used, and a device with a default route only
with --i-know. Devices in a network namespace are written NAMESPACE:DEVICE.`,
	}
	command.AddCommand(newRunCommand(a), newSendCommand(a), newReceiveCommand(a), newReplayCommand(a), newJoinCommand(a), newRFC2544Command(a), newServeCommand(a))
	return command
}

// testerOptions are the flags that the tester's commands share.
type testerOptions struct {
	out     string
	capture string
	clock   string
	metrics string
	iKnow   bool
	realtime
}

func (o *testerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.out, "out", "", "folder for an evidence bundle: tables, CSV, histograms, report.html")
	flags.BoolVar(&o.iKnow, "i-know", false, "use a device even if a default route leaves through it")
	flags.StringVar(&o.metrics, "metrics", "", "loopback address on which to serve the run's counters for Prometheus, such as 127.0.0.1:9465")
	o.realtime.addFlag(flags)
}

// realtime is the flag --realtime.
type realtime struct{ wanted bool }

func (r *realtime) addFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&r.wanted, "realtime", false, "run with real-time priority, so that paced frames leave in time on a busy machine")
}

// apply makes the process a real-time one, where that is wanted.
func (r *realtime) apply() error {
	if !r.wanted {
		return nil
	}
	return fault.Wrap(session.Realtime(), fault.Permission, "run it as root outside of containers that forbid real-time scheduling")
}

// addReceiving adds the flags of commands that receive.
func (o *testerOptions) addReceiving(flags *pflag.FlagSet) {
	flags.StringVar(&o.capture, "capture", "", "write the frames around errors to this pcapng file; a name that ends in .gz compresses it")
	o.addClock(flags)
}

func (o *testerOptions) addClock(flags *pflag.FlagSet) {
	flags.StringVar(&o.clock, "clock", "", `"synchronised": sender's and receiver's clocks agree (PTP), so delays are one-way; "relative": they do not`)
}

// clockOf reads --clock; the specification's word counts where the flag is not given.
func (o *testerOptions) clockOf(synchronised bool) (session.Clock, error) {
	switch o.clock {
	case "synchronised", "synchronized":
		return session.OneWay, nil
	case "relative":
		return session.Relative, nil
	case "":
		if synchronised {
			return session.OneWay, nil
		}
		return "", nil
	}
	return "", fault.New(fault.Usage, "use --clock synchronised or --clock relative", "--clock %q is not known", o.clock)
}

// defaultCapture is the default number of frames of --capture.
const defaultCapture = 4096

// captured returns the number of frames to keep around errors.
func (o *testerOptions) captured(s *spec.Spec) int {
	if o.capture != "" && s.Capture == 0 {
		return defaultCapture
	}
	if o.capture == "" {
		return 0
	}
	return s.Capture
}

// prepareOut rejects an unwritable --out before the measurement.
func (o *testerOptions) prepareOut() error {
	if o.out == "" {
		return nil
	}
	return cli.CheckOut(o.out)
}

// privileged returns the missing rights of a user other than root.
func privileged() error {
	if os.Geteuid() != 0 {
		return fault.New(fault.Permission, "run it with sudo", "the tester attaches BPF programs to devices, which only root may do")
	}
	return nil
}
