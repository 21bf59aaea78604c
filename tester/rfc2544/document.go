// SPDX-License-Identifier: Apache-2.0

package rfc2544

// Document is a report's results as numbers, for programs. Rates are frame/s in each direction; a
// result with a reason was not measured.
type Document struct {
	Throughput []ThroughputDocument `json:"throughput"`
	FrameLoss  []LossDocument       `json:"frame_loss"`
	Stopped    bool                 `json:"stopped"`
}

// ThroughputDocument is the throughput of one frame size and its limit.
type ThroughputDocument struct {
	Size      int     `json:"frame_size"`
	Rate      float64 `json:"frame_rate"`
	Fails     float64 `json:"fails_at,omitempty"` // lowest rate above the result that lost frames
	Line      float64 `json:"line_rate,omitempty"`
	LimitedBy Limit   `json:"limited_by,omitempty"` // "device", "line", "tester"
	Because   string  `json:"because,omitempty"`    // limited by the tester: reason
	Losses    string  `json:"losses,omitempty"`     // places of the losses
	Reason    string  `json:"reason,omitempty"`
}

// LossDocument is the frame loss rate of one frame size over the rates (section 26.3).
type LossDocument struct {
	Size    int                 `json:"frame_size"`
	Maximum float64             `json:"maximum_rate"` // the rate of 100 %
	Line    bool                `json:"of_the_line"`  // the maximum is the medium's; otherwise the tester's
	Points  []LossPointDocument `json:"points"`
	Reason  string              `json:"reason,omitempty"`
}

// LossPointDocument is one point of the curve.
type LossPointDocument struct {
	Share   float64 `json:"share_of_maximum"`
	Rate    float64 `json:"asked_rate"`
	Offered float64 `json:"offered_rate"`
	Loss    float64 `json:"loss"` // share
	Reason  string  `json:"reason,omitempty"`
}

// Document returns the report as numbers.
func (r Report) Document() Document {
	d := Document{Throughput: []ThroughputDocument{}, FrameLoss: []LossDocument{}, Stopped: r.Stopped}
	for _, t := range r.Throughput {
		one := ThroughputDocument{Size: t.Size, Line: t.Theoretical, Reason: t.Reason}
		if t.Measured() {
			one.Rate, one.Fails, one.LimitedBy, one.Because = t.Rate, t.Fails, t.Limit, t.Because
			if t.Losses.Frames > 0 {
				one.Losses = t.Losses.String()
			}
		}
		d.Throughput = append(d.Throughput, one)
	}
	for _, v := range r.FrameLoss {
		one := LossDocument{Size: v.Size, Maximum: v.Maximum, Line: v.Line, Reason: v.Reason, Points: []LossPointDocument{}}
		for _, p := range v.Points {
			one.Points = append(one.Points, LossPointDocument{p.Percent / 100, p.Rate, p.Offered, p.Loss, p.Reason})
		}
		d.FrameLoss = append(d.FrameLoss, one)
	}
	return d
}
