-- Bounded, without secrets; null without an answer, and once the answer is erased.
alter table attempt add column response_headers json;
