// SPDX-License-Identifier: Apache-2.0

// Package modules holds the YANG modules of the protocol itself: published IETF modules, under the
// licence that each of them names.
package modules

import (
	"embed"

	"weir/netconf/schema"
)

// Files holds NAME-REVISION.yang.
//
//go:embed *.yang
var Files embed.FS

// Sources lists the protocol's modules; startup adds the feature of that datastore.
func Sources(startup bool) []schema.Source {
	features := []string{"candidate", "confirmed-commit", "rollback-on-error", "validate", "xpath"}
	if startup {
		features = append(features, "startup")
	}
	return []schema.Source{
		{Name: "ietf-inet-types@2025-12-22", Import: true},
		{Name: "ietf-yang-types@2025-12-22", Import: true},
		{Name: "ietf-datastores@2018-02-14", Import: true},
		{Name: "ietf-netconf@2011-06-01", Features: features},
		{Name: "ietf-netconf-acm@2018-02-14"},
		{Name: "ietf-netconf-monitoring@2010-10-04"},
		{Name: "ietf-netconf-notifications@2012-02-06"},
		{Name: "ietf-netconf-with-defaults@2011-06-01"},
		{Name: "ietf-yang-library@2019-01-04"},
	}
}
