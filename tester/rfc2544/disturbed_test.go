// SPDX-License-Identifier: Apache-2.0

package rfc2544_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/record/hist"
	"weir/tester/rfc2544"
)

// interrupted is a device of this machine that forwards everything and is interrupted in every
// other trial.
type interrupted struct {
	device
	outcome func(o *rfc2544.Outcome) // turns a clean outcome into that of an interruption
}

func (d *interrupted) Trial(ctx context.Context, t rfc2544.Trial, residual time.Duration) (rfc2544.Outcome, error) {
	o, err := d.device.Trial(ctx, t, residual)
	o.Device = &rfc2544.DeviceReading{Ran: t.Duration / 2, Ring: 256}
	o.Others = 0.5 // other programs do not matter if the device's own times are known
	if len(d.trials)%2 == 1 {
		d.outcome(&o)
	}
	return o, err
}

func loses(o *rfc2544.Outcome, share float64) {
	o.Directions[0].Received -= uint64(share * float64(o.Directions[0].Received))
}

func TestATrialThatAnInterruptionSpoiledIsNoFailure(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		outcome      func(o *rfc2544.Outcome)
	}{
		{"the device's CPU was taken away", "stood still", func(o *rfc2544.Outcome) {
			loses(o, 0.01)
			o.Directions[0].Delay = &hist.Histogram{}
			o.Directions[0].Delay.Record(uint64(5 * time.Millisecond))
		}},
		{"other work came first", "kept the device off its CPU", func(o *rfc2544.Outcome) {
			loses(o, 0.01)
			o.Device.Waited = o.Elapsed / 4
		}},
	} {
		d := &interrupted{device: device{capacity: 1e9}, outcome: test.outcome}
		c := quick(rfc2544.Throughput)
		c.Verify, c.VerifyFinal = 0, 0
		report, err := rfc2544.Run(context.Background(), c, d)
		if err != nil {
			t.Fatal(err)
		}
		got := report.Throughput[0]
		if got.Limit != rfc2544.ByLine || got.Rejected == 0 || got.Losses.Frames != 0 {
			t.Errorf("%s: %+v", test.name, got)
		}
		for _, a := range report.Attempts {
			if !a.Valid && !strings.Contains(a.Reason, test.reason) {
				t.Errorf("%s: rejected because %s", test.name, a.Reason)
			}
		}
	}
}

func TestALossThatNoInterruptionExplainsCounts(t *testing.T) {
	for name, outcome := range map[string]func(o *rfc2544.Outcome){
		"a third of the frames": func(o *rfc2544.Outcome) {
			loses(o, 0.3)
			o.Device.Waited = o.Elapsed / 4
		},
		"without any wait": func(o *rfc2544.Outcome) { loses(o, 0.01) },
		"busy all the time": func(o *rfc2544.Outcome) {
			loses(o, 0.01)
			o.Device.Ran, o.Device.Waited = o.Elapsed*94/100, o.Elapsed*6/100
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &interrupted{device: device{capacity: 1e9}, outcome: outcome}
			c := quick(rfc2544.Throughput)
			c.Verify, c.VerifyFinal, c.ConfirmBelow = 0, 0, 2
			report, err := rfc2544.Run(context.Background(), c, d)
			if err != nil {
				t.Fatal(err)
			}
			if !report.Attempts[0].Valid || report.Throughput[0].Losses.Frames == 0 {
				t.Errorf("%s: %+v", name, report.Attempts[0])
			}
		})
	}
}
