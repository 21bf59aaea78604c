// SPDX-License-Identifier: Apache-2.0

package record

// Proof is the evidence that one run counts: the measured state of its testbed, and that no change
// of it made the figures.
type Proof struct {
	Labels     Labels `json:"labels"`
	Repetition int    `json:"repetition"`
	Attempt    int    `json:"attempt"`
	Why        string `json:"why"` // reason in one sentence
	// Configuration is the SHA-256 sum over the configuration of all namespaces, equal at start and
	// end.
	Configuration string      `json:"configuration_sha256"`
	Settings      int         `json:"settings"` // number of settings in it
	Namespaces    int         `json:"namespaces"`
	Frames        uint64      `json:"frames"` // sent by the hosts
	Links         []ProofLink `json:"links"`
	// Lateness of the links' frames, and the longest and the total time for which frames waited in
	// a link, in seconds.
	LatenessP50 float64 `json:"lateness_p50"`
	LatenessP99 float64 `json:"lateness_p99"`
	Stall       float64 `json:"longest_stall"`
	Behind      float64 `json:"stalled"`
	Pause       float64 `json:"longest_pause"` // of the measuring process, in seconds
}

// ProofLink is one direction of an emulated link: its configuration, the calibration's result, and
// its frames:
//
//	sent = received = queue_drops + loss_drops + passed - duplicated, passed = arrived
type ProofLink struct {
	Link          string  `json:"link"`
	From          string  `json:"from"`
	To            string  `json:"to"`
	RateAsked     float64 `json:"rate_asked"` // bit/s; 0 for none
	Rate          float64 `json:"rate"`
	DelayAsked    float64 `json:"delay_asked"` // seconds
	Delay         float64 `json:"delay"`       // including the time on the wire
	Loss          float64 `json:"loss"`        // share of the calibration's frames
	Sent          uint64  `json:"sent"`
	Received      uint64  `json:"received"`
	QueueDrops    uint64  `json:"queue_drops"`
	LossDrops     uint64  `json:"loss_drops"`
	Duplicated    uint64  `json:"duplicated"`
	Passed        uint64  `json:"passed"`
	Arrived       uint64  `json:"arrived"`
	SentOctets    uint64  `json:"sent_octets"`
	PassedOctets  uint64  `json:"passed_octets"`
	ArrivedOctets uint64  `json:"arrived_octets"`
}
