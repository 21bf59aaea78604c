package policy

import (
	"weir/internal/units"
	"weir/internal/yamlfile"
)

// file is the YAML form of a policy. It stops at this package.
type file struct {
	yamlfile.Fields `yaml:"-"`
	Version         int                     `yaml:"version,required" doc:"Version of the format: 1."`
	Scopes          yamlfile.Map[scopeFile] `yaml:"scopes,required" doc:"What is limited, each under a name of your own."`
}

// scopeFile names exactly one kind of traffic and what it may use. A group names none: it is the sum of its children.
type scopeFile struct {
	yamlfile.Fields `yaml:"-"`
	Cgroup          string    `yaml:"cgroup" doc:"Path of a cgroup below the mount point of the v2 hierarchy; everything below it is covered."`
	Unit            string    `yaml:"unit" doc:"A systemd unit, such as backup.service: its cgroup, wherever systemd puts it."`
	User            *int      `yaml:"user" doc:"User id whose sockets are meant."`
	Interface       string    `yaml:"interface" doc:"Device that the traffic passes."`
	Prefix          string    `yaml:"prefix" doc:"Remote IPv4 or IPv6 prefix; of several scopes the longest match counts."`
	Host            bool      `yaml:"host" doc:"All traffic of the host."`
	Parent          string    `yaml:"parent" doc:"Name of the scope whose rate it shares with its siblings; the parent is charged for its traffic too."`
	Egress          *rateFile `yaml:"egress" doc:"What it may send."`
	Ingress         *rateFile `yaml:"ingress" doc:"What it may receive."`
	Shadow          bool      `yaml:"shadow" doc:"Count what would be done, and do nothing."`
	Loopback        bool      `yaml:"loopback" doc:"Limit loopback traffic too."`
}

// rateFile is a rate, alone or with the part in a parent and the thresholds of the virtual queue.
type rateFile struct {
	yamlfile.Fields `yaml:"-"`
	Rate            *units.BitRate  `yaml:"rate" doc:"Bits per second, as in 200Mbit: 64 kbit/s to 400 Gbit/s. Required without a parent; with one, its rate if left out."`
	Min             *units.BitRate  `yaml:"min" doc:"What the parent keeps for it, whatever its siblings do. Only with a parent."`
	Weight          *int            `yaml:"weight" doc:"Its part of the parent against its siblings' weights, 1 to 10000; 1 if left out. Only with a parent."`
	Burst           *units.Duration `yaml:"burst" doc:"How far an idle scope may run ahead; scales with the rate if left out."`
	Mark            *units.Duration `yaml:"mark" doc:"Virtual queue from which packets are marked and senders slowed down."`
	Drop            *units.Duration `yaml:"drop" doc:"Virtual queue from which packets are refused."`
}

// UnmarshalText reads the short form: the rate alone.
func (r *rateFile) UnmarshalText(text []byte) error {
	r.Rate = new(units.BitRate)
	return r.Rate.UnmarshalText(text)
}

// ShortForm describes it for the schema.
func (*rateFile) ShortForm() string { return "the rate alone, as in 200Mbit" }
