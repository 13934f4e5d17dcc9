// The functions of libcrypto, OpenSSL's library, found at run time (dlopen of libcrypto.so.3), so that a program which
// neither signs nor checks signatures does not need it. The inside of signing_key.cc: nobody else sees OpenSSL.
#pragma once
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <string>

namespace tw::libcrypto {

// Named as in OpenSSL.
struct Api {
  decltype(&::BIO_free) BIO_free;
  decltype(&::BIO_new_mem_buf) BIO_new_mem_buf;
  decltype(&::ERR_clear_error) ERR_clear_error;
  decltype(&::EVP_DigestSign) EVP_DigestSign;
  decltype(&::EVP_DigestSignInit) EVP_DigestSignInit;
  decltype(&::EVP_DigestVerify) EVP_DigestVerify;
  decltype(&::EVP_DigestVerifyInit) EVP_DigestVerifyInit;
  decltype(&::EVP_MD_CTX_free) EVP_MD_CTX_free;
  decltype(&::EVP_MD_CTX_new) EVP_MD_CTX_new;
  decltype(&::EVP_PKEY_free) EVP_PKEY_free;
  decltype(&::EVP_PKEY_get_raw_public_key) EVP_PKEY_get_raw_public_key;
  decltype(&::EVP_PKEY_is_a) EVP_PKEY_is_a;
  decltype(&::PEM_read_bio_PUBKEY) PEM_read_bio_PUBKEY;
  decltype(&::PEM_read_bio_PrivateKey) PEM_read_bio_PrivateKey;
};

// Null if there is no library; then *why is the reason. The library stays open.
const Api* api(std::string* why);

}  // namespace tw::libcrypto
