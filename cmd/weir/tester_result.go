// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"weir/internal/fault"
	"weir/internal/version"
	"weir/record"
	"weir/record/bundle"
	"weir/record/machine"
	"weir/tester/capture"
	"weir/tester/evidence"
	"weir/tester/session"
	"weir/tester/spec"
)

// testerResult is the document of weir tester run and join with --format json; send and receive
// print its account alone.
type testerResult struct {
	Format   string           `json:"format"`
	Account  session.Account  `json:"account"`
	Verdicts []record.Verdict `json:"verdicts"`
	Bundle   string           `json:"bundle,omitempty"`
}

// tested writes and prints the results of a run, and returns the error of the command.
func (a *app) tested(account session.Account, s *spec.Spec, o testerOptions) error {
	b := evidence.Bundle(account, s.Expect)
	b.Manifest.Source = s.Source
	if err := a.keep(&b, o.out); err != nil {
		return err
	}
	if o.capture != "" && len(account.Captured) > 0 {
		err := writeTo(o.capture, func(w io.Writer) error { return capture.Write(w, account.Epoch, account.Captured) })
		if err != nil {
			return err
		}
		a.say("wrote the frames around errors to %s", o.capture)
	}
	if err := a.printTested(account, b, o.out); err != nil {
		return err
	}
	return judged(account, b.Verdicts)
}

// keep completes the manifest and writes the bundle, if requested.
func (a *app) keep(b *record.Bundle, dir string) error {
	b.Manifest.Version, b.Manifest.Command, b.Manifest.Machine = version.Number, a.args, machine.Describe()
	if dir == "" {
		return nil
	}
	return bundle.Write(dir, b)
}

func (a *app) printTested(account session.Account, b record.Bundle, dir string) error {
	if a.format == "json" {
		if !both(account) {
			return a.json(account)
		}
		return a.json(testerResult{Format: "weir-tester-result/1", Account: account, Verdicts: orEmpty(b.Verdicts), Bundle: dir})
	}
	return a.printBundle(b, dir)
}

// both reports whether an account has sent and received frames.
func both(account session.Account) bool {
	for _, s := range account.Streams {
		if s.Sent != nil && s.Received != nil {
			return true
		}
	}
	return false
}

// printBundle prints tables, verdicts and notes for people.
func (a *app) printBundle(b record.Bundle, dir string) error {
	tables := b.Tables
	if len(b.Verdicts) > 0 {
		tables = append(tables, verdictTable(b.Verdicts))
	}
	for _, t := range tables {
		if err := a.table(t); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	for _, note := range b.Manifest.Notes {
		fmt.Fprintln(a.stdout, "Note: "+note)
	}
	var ways []string
	for what, how := range b.Manifest.Mechanisms {
		ways = append(ways, what+": "+how)
	}
	if len(ways) > 0 {
		fmt.Fprintln(a.stdout, "Mechanism: "+strings.Join(sorted(ways), ", "))
	}
	if dir != "" {
		fmt.Fprintln(a.stdout, "Evidence: "+filepath.Join(dir, bundle.ReportFile))
	}
	return nil
}

// judged is the command's error: a stream that never arrived, a verdict that does not hold or could
// not be measured.
func judged(account session.Account, verdicts []record.Verdict) error {
	if err := account.Check(); err != nil {
		return err
	}
	var unmeasured error
	for _, v := range verdicts {
		switch v.Outcome {
		case record.Fails:
			return errVerdict
		case record.NotMeasured:
			unmeasured = fault.New(fault.Testbed, "see the verdict's reason", "%s of %s was not measured: %s", v.Name, v.Labels["stream"], v.Reason)
		}
	}
	if account.Stopped {
		return fault.New(fault.Failed, "let it run to its end for the whole result", "stopped")
	}
	if unmeasured != nil {
		return unmeasured
	}
	return account.Short()
}
