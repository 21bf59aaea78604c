// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/kernel/instance"
	"weir/lab"
	labrun "weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/bundle"
)

// runOptions are the flags of weir lab run and rerun.
type runOptions struct {
	set         []string
	repetitions int
	seed        uint64
	generator   string
	carrier     string
	out         string
	junit       string
	keepGoing   bool
	share       bool
	capture     int // bytes per frame; 0 for no capture
}

func (o *runOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.generator, "generator", "weir", "traffic generator: weir or iperf3")
	flags.StringVar(&o.carrier, "carrier", "auto", "link emulation: auto, edt, netem or emulator")
	flags.StringVar(&o.out, "out", "", "folder for the evidence bundle (default ./weir-out/NAME-TIME)")
	flags.StringVar(&o.junit, "junit", "", "also write the verdicts to this file, as JUnit test cases")
	flags.BoolVar(&o.keepGoing, "keep-going", false, "if this machine cannot run a combination of parameters, continue with the others")
	flags.IntVar(&o.capture, "capture", 0, "add packet traces of the links to the bundle, with this number of bytes per frame")
	flags.Lookup("capture").NoOptDefVal = "128"
	flags.BoolVar(&o.share, "share", false, "measure even while another lab on this machine measures")
}

func newRunCommand(a *cli.App) *cobra.Command {
	var o runOptions
	command := &cobra.Command{
		Use:   "run NAME|FILE",
		Short: "Measure a scenario and write an evidence bundle",
		Long: `Measure a scenario and write an evidence bundle.

The lab measures every combination of parameters the given number of times, in random
order. Each run builds hosts and links, calibrates the links, generates the traffic and
checks the testbed. If the testbed failed, the run is invalid: the lab repeats it and
excludes it from all averages.

The exit status is 0 if every expectation is met, 1 if an expectation is not met or the
run was stopped, and 3 if this machine cannot run the scenario.`,
		Example: `  sudo weir lab run loss-quick
  sudo weir lab run loss-study --set loss=0%,1% --set cc=cubic --repetitions 3
  sudo weir lab run my.yaml --out results/today --junit results/today.xml
  sudo weir lab run fairness --generator iperf3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeScenario,
		RunE: func(command *cobra.Command, args []string) error {
			s, chosen, err := loadScenario(args[0], o.set)
			if err != nil {
				return err
			}
			if command.Flags().Changed("repetitions") {
				if err := s.SetRepetitions(o.repetitions); err != nil {
					return fmt.Errorf("--repetitions: %w", err)
				}
				chosen["repetitions"] = strconv.Itoa(o.repetitions)
			}
			if !command.Flags().Changed("seed") {
				o.seed = s.Seed
			}
			_, err = measure(a, command, s, o, chosen)
			return err
		},
	}
	o.addFlags(command)
	command.Flags().StringArrayVar(&o.set, "set", nil, "values of a parameter, as in --set loss=0%,1% (repeatable)")
	command.Flags().IntVar(&o.repetitions, "repetitions", 0, "runs of each combination (default: the scenario's)")
	command.Flags().Uint64Var(&o.seed, "seed", 0, "seed of the order and of every emulated loss (default: the scenario's)")
	return command
}

// measure runs the scenario, writes the bundle, prints the results, and returns the folder of the
// bundle.
func measure(a *cli.App, command *cobra.Command, s *scenario.Scenario, o runOptions, parameters map[string]string) (string, error) {
	if err := sweep(a); err != nil {
		return "", err
	}
	dir := o.out
	if dir == "" {
		dir = filepath.Join("weir-out", s.Name+"-"+time.Now().Format("20060102-150405"))
	}
	if err := cli.CheckOut(dir); err != nil {
		return "", err
	}
	if o.junit != "" {
		if err := cli.CheckFile("--junit", o.junit); err != nil {
			return "", err
		}
	}
	if err := instance.CheckRoot(); err != nil {
		return "", err
	}
	options, err := newOptions(o, s)
	if err != nil {
		return "", err
	}
	show := newProgress(a)
	options.Report, options.Stderr = show.report, a.Stderr
	if o.generator != "weir" {
		parameters["generator"] = o.generator
	}
	if o.carrier != "auto" {
		parameters["carrier"] = o.carrier
	}
	remove, err := o.captureInto(&options)
	if err != nil {
		return "", err
	}
	defer remove()
	experiment := lab.Experiment{Scenario: s, Options: options, Command: a.Args, Parameters: parameters}
	measured, runErr := experiment.Measure(command.Context())
	show.end()
	if measured == nil {
		return "", cli.Stopped(command.Context(), runErr)
	}
	dir, writeErr := keepEvidence(a, dir, o.junit, measured)
	if err := printMeasured(a, measured, dir); err != nil {
		return dir, errors.Join(err, writeErr)
	}
	switch {
	case writeErr != nil:
		return dir, errors.Join(writeErr, runErr)
	case runErr != nil:
		return dir, runErr
	case measured.Manifest.Stopped:
		return dir, fault.New(fault.Failed, "see the partial results in "+dir, "stopped")
	}
	if err := lab.Holds(measured); err != nil {
		return dir, cli.ErrVerdict
	}
	return dir, nil
}

// captureInto creates a folder for packet traces until they are in the bundle.
func (o runOptions) captureInto(options *labrun.Options) (remove func(), err error) {
	if o.capture == 0 {
		return func() {}, nil
	}
	if o.capture < 14 || o.capture > 65535 {
		return nil, fault.New(fault.Usage, "write a number from 14, the Ethernet header, to 65535", "--capture %d bytes of a frame", o.capture)
	}
	options.CaptureOctets = o.capture
	if options.Capture, err = os.MkdirTemp("", "weir-capture-"); err != nil {
		return nil, fmt.Errorf("make a folder for packet traces: %w", err)
	}
	return func() { _ = os.RemoveAll(options.Capture) }, nil
}

// newOptions chooses carrier and generator.
func newOptions(o runOptions, s *scenario.Scenario) (labrun.Options, error) {
	generator, err := lab.Generator(o.generator)
	if err != nil {
		return labrun.Options{}, err
	}
	choice, err := lab.Carrier(o.carrier, s)
	if err != nil {
		return labrun.Options{}, err
	}
	return labrun.Options{Carrier: choice.Carrier, CarrierReason: choice.Reason, Generator: generator, Gate: labrun.Fidelity{},
		Seed: o.seed, Patience: time.Second, KeepGoing: o.keepGoing, Share: o.share}, nil
}

// keepEvidence writes the bundle, if necessary to another folder, so that a full disk does not lose
// a long measurement. It returns the folder, or "", and the error of the requested folder.
func keepEvidence(a *cli.App, dir, junit string, b *record.Bundle) (string, error) {
	err := writeEvidence(dir, junit, b)
	if err == nil {
		return dir, nil
	}
	if _, statErr := bundle.ReadManifest(dir); statErr == nil { // it is the JUnit file that could not be written
		return dir, err
	}
	for _, above := range []string{"weir-out", os.TempDir(), "/var/tmp", "/dev/shm"} {
		other := filepath.Join(above, "weir-"+b.Manifest.Name+"-"+time.Now().Format("20060102-150405"))
		if bundle.Write(other, b) == nil {
			a.Say("the bundle could not be written to %s and is in %s", dir, other)
			return other, err
		}
	}
	a.Say("the bundle could not be written to %s or elsewhere: only the following output remains", dir)
	return "", err
}

func writeEvidence(dir, junit string, b *record.Bundle) error {
	if err := bundle.Write(dir, b); err != nil {
		return err
	}
	if junit == "" {
		return nil
	}
	return cli.WriteTo(junit, func(w io.Writer) error { return bundle.WriteJUnit(w, b) })
}
