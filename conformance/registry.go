package conformance

// Cases lists every case, left-out ones too, in the order of reports.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		capCases, ckpCases, idmCases, atmCases, batCases, fncCases, cncCases, opsCases, valCases, bigCases, dlnCases,
		libCases, resCases, msgCases, schCases, snpCases, incCases, tpcCases, logCases, errCases, piiCases, secCases, oprCases,
	} {
		all = append(all, group...)
	}
	return all
}
