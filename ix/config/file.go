// SPDX-License-Identifier: Apache-2.0

package config

import (
	"weir/internal/units"
	"weir/internal/yamlfile"
)

// file is the exchange file as written.
type file struct {
	yamlfile.Fields `yaml:"-"`
	Version         int                        `yaml:"version,required"`
	Exchange        exchangeKeys               `yaml:"exchange,required"`
	Feed            *feedKeys                  `yaml:"feed"`
	Listen          []yamlfile.Text            `yaml:"listen"`
	Choose          chooseKeys                 `yaml:"choose"`
	Sponsors        yamlfile.Map[*sponsorKeys] `yaml:"sponsors,required"`
	Members         yamlfile.Map[*memberKeys]  `yaml:"members,required"`
}

type exchangeKeys struct {
	yamlfile.Fields `yaml:"-"`
	Name            string          `yaml:"name"`
	AS              *uint32         `yaml:"as,required"`
	RouterID        *yamlfile.Text  `yaml:"router_id"`
	LAN             []yamlfile.Text `yaml:"lan"`
}

type feedKeys struct {
	yamlfile.Fields `yaml:"-"`
	Bird            *yamlfile.Text `yaml:"bird"`
	Local           *yamlfile.Text `yaml:"local"`
	RIB             string         `yaml:"rib"`
	Password        *yamlfile.Text `yaml:"password"`
}

type chooseKeys struct {
	yamlfile.Fields `yaml:"-"`
	Paths           *int            `yaml:"paths"`
	Tolerance       *int            `yaml:"tolerance"`
	Diverse         *bool           `yaml:"diverse"`
	Prefer          string          `yaml:"prefer" enum:"spread,shortest"`
	Stale           *units.Duration `yaml:"stale"`
}

type sponsorKeys struct {
	yamlfile.Fields `yaml:"-"`
	AS              *uint32                 `yaml:"as,required"`
	Ports           yamlfile.Map[*portKeys] `yaml:"ports,required"`
	Only            []yamlfile.Text         `yaml:"only"`
	Drained         bool                    `yaml:"drained"`
}

type portKeys struct {
	yamlfile.Fields `yaml:"-"`
	Addresses       []yamlfile.Text `yaml:"addresses,required"`
	Rate            *units.BitRate  `yaml:"rate,required"`
	Place           string          `yaml:"place"`
	Drained         bool            `yaml:"drained"`
}

type memberKeys struct {
	yamlfile.Fields `yaml:"-"`
	AS              *uint32         `yaml:"as,required"`
	Addresses       []yamlfile.Text `yaml:"addresses,required"`
	Place           string          `yaml:"place"`
	Paths           *int            `yaml:"paths"`
	Without         []yamlfile.Text `yaml:"without"`
	Small           bool            `yaml:"small"`
	Password        *yamlfile.Text  `yaml:"password"`
	TTLSecurity     bool            `yaml:"ttl_security"`
}
