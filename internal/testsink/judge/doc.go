// Package judge reads by SQL what a run left behind, and says whether it is right: the
// mirror against the source's tables, the log against the source's own ledger, and the
// positions of sink and slot against each other. It shares nothing with the road it
// judges but the type of a position, and it writes nowhere.
//
// What it says names tables, columns, counts and positions, never a row's value.
package judge
