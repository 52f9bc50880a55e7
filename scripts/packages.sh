#!/bin/sh
# Lists the packages of the main test pass. The models have a pass of their own: they
# have no goroutines that could race, and the detector would make them ten times larger.
set -eu
go list ./... | grep -v '/internal/model/'
