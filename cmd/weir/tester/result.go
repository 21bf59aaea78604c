// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"io"
	"strings"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/record"
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
func tested(a *cli.App, account session.Account, s *spec.Spec, o testerOptions) error {
	b := evidence.Bundle(account, s.Expect)
	b.Manifest.Source = s.Source
	if err := a.Keep(&b, o.out); err != nil {
		return err
	}
	if o.capture != "" && len(account.Captured) > 0 {
		write := capture.Write
		if strings.HasSuffix(o.capture, ".gz") {
			write = capture.WriteCompressed
		}
		err := cli.WriteTo(o.capture, func(w io.Writer) error { return write(w, account.Epoch, account.Captured) })
		if err != nil {
			return err
		}
		a.Say("wrote the frames around errors to %s", o.capture)
	}
	if err := printTested(a, account, b, o.out); err != nil {
		return err
	}
	return judged(account, b.Verdicts)
}

func printTested(a *cli.App, account session.Account, b record.Bundle, dir string) error {
	if a.Format == "json" {
		if !both(account) {
			return a.JSON(account)
		}
		return a.JSON(testerResult{Format: "weir-tester-result/1", Account: account, Verdicts: cli.OrEmpty(b.Verdicts), Bundle: dir})
	}
	return a.PrintBundle(b, dir)
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
			return cli.ErrVerdict
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
