// The functions of libpq, PostgreSQL's client library, found at run time (dlopen of libpq.so.5), so that a program that
// opens no such database neither needs nor loads it and the dozen libraries behind it. The inside of
// postgres_connection.cc and postgres_address.cc: nobody else sees libpq.
#pragma once
#include <libpq-fe.h>

#include <string>

namespace tw::libpq {

// Named as in libpq, without "PQ".
struct Api {
  decltype(&::PQclear) clear;
  decltype(&::PQcmdTuples) cmdTuples;
  decltype(&::PQconnectPoll) connectPoll;
  decltype(&::PQconnectStartParams) connectStartParams;
  decltype(&::PQconnectionNeedsPassword) connectionNeedsPassword;
  decltype(&::PQconninfoFree) conninfoFree;
  decltype(&::PQconninfoParse) conninfoParse;
  decltype(&::PQconsumeInput) consumeInput;
  decltype(&::PQenterPipelineMode) enterPipelineMode;
  decltype(&::PQerrorMessage) errorMessage;
  decltype(&::PQescapeIdentifier) escapeIdentifier;
  decltype(&::PQexec) exec;
  decltype(&::PQexitPipelineMode) exitPipelineMode;
  decltype(&::PQfinish) finish;
  decltype(&::PQfreemem) freemem;
  decltype(&::PQgetResult) getResult;
  decltype(&::PQgetisnull) getisnull;
  decltype(&::PQgetlength) getlength;
  decltype(&::PQgetvalue) getvalue;
  decltype(&::PQnotifies) notifies;
  decltype(&::PQnfields) nfields;
  decltype(&::PQntuples) ntuples;
  decltype(&::PQpipelineSync) pipelineSync;
  decltype(&::PQresultErrorField) resultErrorField;
  decltype(&::PQresultErrorMessage) resultErrorMessage;
  decltype(&::PQresultStatus) resultStatus;
  decltype(&::PQsendPrepare) sendPrepare;
  decltype(&::PQsendQueryParams) sendQueryParams;
  decltype(&::PQsendQueryPrepared) sendQueryPrepared;
  decltype(&::PQserverVersion) serverVersion;
  decltype(&::PQsetErrorVerbosity) setErrorVerbosity;
  decltype(&::PQsetNoticeProcessor) setNoticeProcessor;
  decltype(&::PQsetSingleRowMode) setSingleRowMode;
  decltype(&::PQsocket) socket;
  decltype(&::PQstatus) status;
  decltype(&::PQtransactionStatus) transactionStatus;
  decltype(&::PQuser) user;
};

// Null if there is no library; then *why is the reason. The library stays open.
const Api* api(std::string* why);

}  // namespace tw::libpq
