package pipeline

// Forgets makes options take the server for one that forgets tables that are added.
func (o *Options) Forgets() { o.forgets = true }

// AddsWhole is addsWhole.
var AddsWhole = addsWhole
